"""Every method on several GPUs: verl's engine on 1 and 2 processes, with passes of a fixed
number of rows or packed by tokens, gives one loss and one gradient (ranks.py)."""

import json
from importlib.util import find_spec

import pytest
import torch
from runs import program

pytestmark = pytest.mark.skipif(
    find_spec("verl") is None, reason="verl is not installed here: make test-cluster runs these"
)
REFUSED = {"outdated weights": "optim.mini_batches=2"}  # case in ranks.py: what its message names


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """(processes -> packing -> method -> (loss, gradient), the local (loss, gradient) of methods,
    method -> why it is refused)."""
    folder = tmp_path_factory.mktemp("ranks")
    program("ranks.py", folder)
    refused = json.loads((folder / "refused.json").read_text())
    found = {world: torch.load(folder / f"{world}.pt") for world in (1, 2)}
    return found, torch.load(folder / "local.pt"), refused


def test_every_method_has_one_gradient_whatever_the_number_of_gpus_and_the_packing(computed):
    found, _, _ = computed
    expected = found[1]["fixed"]
    assert len(expected) > 55
    sizes = {name: gradient.abs().max().item() for name, (_, gradient) in expected.items()}
    assert [name for name, size in sizes.items() if size < 1e-4] == []
    other = []
    for world, packings in found.items():
        for packing, values in packings.items():
            assert values.keys() == expected.keys()
            for name, (loss, gradient) in values.items():
                its_loss, its_gradient = expected[name]
                gap = (gradient - its_gradient).abs().max().item()
                if gap > 1e-5 * sizes[name] or abs(loss - its_loss) > 1e-5 * abs(its_loss) + 1e-6:
                    other.append((world, packing, name, gap, loss - its_loss))
    assert other == []


def test_it_is_the_local_loops(computed):
    found, local, _ = computed
    assert len(local) > 40
    for name, (loss, gradient) in local.items():
        its_loss, its_gradient = found[1]["fixed"][name]
        assert its_loss == pytest.approx(loss, rel=1e-5, abs=1e-6), name
        torch.testing.assert_close(its_gradient, gradient, rtol=1e-4, atol=1e-6, msg=name)


def test_what_would_depend_on_the_number_of_gpus_is_refused(computed):
    _, _, refused = computed
    assert refused.keys() == REFUSED.keys()
    for name, named in REFUSED.items():
        assert named in refused[name]
