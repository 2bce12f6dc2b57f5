"""The last layers put back: which tensors change, in one file or shards, and that the result loads
and is evaluated."""

import json
from pathlib import Path

import pytest
import torch
from refuses import refuses
from safetensors.torch import load_file, save_file

from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from papers.fade.weights import checkpoints
from papers.fade.weights.reset import Reset, run

LAYERS = 6


def made(folder: Path, seed: int, dtype=torch.float32, shards: int = 1) -> Path:
    generator = torch.Generator().manual_seed(seed)
    names = [f"model.layers.{i}.mlp.up_proj.weight" for i in range(LAYERS)]
    names += ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]
    held = {name: torch.randn(4, 3, generator=generator).to(dtype) for name in names}
    folder.mkdir()
    (folder / "config.json").write_text('{"x": 1}')
    if shards == 1:
        save_file(held, folder / checkpoints.SINGLE)
        return folder
    places = {name: f"model-{i % shards}.safetensors" for i, name in enumerate(names)}
    for file in set(places.values()):
        save_file({n: held[n] for n in names if places[n] == file}, folder / file)
    (folder / checkpoints.INDEX).write_text(json.dumps({"weight_map": places}))
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {n: t for file in folder.glob("*.safetensors") for n, t in load_file(file).items()}


def reset(before, after, out, layers=4) -> Path:
    given = [f"before={before}", f"after={after}", f"out={out}", f"layers={layers}"]
    return run(strict(Reset, compose("fade", given, "reset")))


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_last_four_layers_are_the_old_ones(tmp_path, shards, dtype):
    before, after = made(tmp_path / "a", 1), made(tmp_path / "b", 2, dtype, shards)
    out = reset(before, after, tmp_path / "out")
    old, new, found = weights(before), weights(after), weights(out)
    assert found.keys() == new.keys()
    for name, tensor in found.items():
        back = any(f"layers.{i}." in name for i in (2, 3, 4, 5))
        assert tensor.dtype == dtype
        assert torch.equal(tensor, old[name].to(dtype) if back else new[name]), name
    assert (out / "config.json").read_text() == '{"x": 1}'
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "out"]


def test_what_cannot_be_is_refused(tmp_path):
    before, after = made(tmp_path / "a", 1), made(tmp_path / "b", 2)
    with refuses("layers", 6):
        reset(before, after, tmp_path / "out", layers=6)
    with refuses("layers", 0):
        reset(before, after, tmp_path / "out", layers=0)
    with pytest.raises(UserError, match="is there already"):
        reset(before, after, after)
    assert not (tmp_path / "out").exists()


def test_a_laptop_run_is_reset_and_evaluated(tiny, results, tmp_path):
    """The command that the module names: a one-layer model has none to leave, so a two-layer one
    is made of its file."""
    from common.backends import run_experiment
    from common.models.load import load_model

    x = tiny()
    model, tokenizer = load_model(x.model, results, "cpu")
    folders = []
    for name, shift in (("before", 0.0), ("after", 0.5)):
        model.config.num_hidden_layers = 2
        model.config.layer_types = ["full_attention"] * 2
        two = type(model)(model.config)
        first = {n: t for n, t in model.state_dict().items()}
        second = {n.replace("layers.0", "layers.1"): t + shift for n, t in first.items()}
        two.load_state_dict(second | first)
        two.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        folders.append(tmp_path / name)
    out = reset(*folders, tmp_path / "out", layers=1)
    counts = []
    for folder in (folders[0], out):
        settings = ["optim.steps=0", "model.pretrain=null", f"model.path={folder}"]
        run_folder = run_experiment(tiny(*settings, "name=reset"), False)
        counts.append((run_folder / "counts.csv").read_bytes())
    assert counts[0] == counts[1]
