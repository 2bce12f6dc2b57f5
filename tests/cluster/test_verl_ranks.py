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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What ranks.py has written."""
    made = tmp_path_factory.mktemp("ranks")
    program("ranks.py", made)
    return made


def test_every_method_has_the_local_loops_advantages(folder):
    both = torch.load(folder / "advantages.pt")
    assert len(both) > 60
    for name, (theirs, ours) in both.items():
        assert theirs.abs().max() > 1e-4, name
        torch.testing.assert_close(theirs, ours, rtol=1e-6, atol=1e-7, msg=name)


def test_every_loss_has_one_gradient_whatever_the_number_of_gpus_and_the_packing(folder):
    found = {world: torch.load(folder / f"{world}.pt") for world in (1, 2)}
    expected = found[1]["fixed"]
    assert len(expected) > 20
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


def test_it_is_the_local_loops(folder):
    found, local = torch.load(folder / "1.pt")["fixed"], torch.load(folder / "local.pt")
    assert len(local) > 8
    for name, (loss, gradient) in local.items():
        its_loss, its_gradient = found[name]
        assert its_loss == pytest.approx(loss, rel=1e-5, abs=1e-6), name
        torch.testing.assert_close(its_gradient, gradient, rtol=1e-4, atol=1e-6, msg=name)


def test_verls_key_is_how_long_ranks_wait_for_each_other(folder):
    assert json.loads((folder / "waits.json").read_text()) == [77] * 4
