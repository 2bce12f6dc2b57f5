import os
import shutil
from pathlib import Path

import pytest
import torch
from local_loop import make_loop

from common.backends import checkpoint
from common.backends.local import train
from common.errors import UserError
from common.models import store


def damaged_copy(source: Path, target: Path, damage: str) -> Path:
    shutil.copytree(source, target)
    weights = target / "model.safetensors"
    if damage == "cut weights":
        weights.write_bytes(weights.read_bytes()[:-100])
    else:
        (target / "config.json").write_text("{")
    return target


@pytest.mark.parametrize("damage", ["cut weights", "corrupt config"])
def test_a_damaged_model_is_refused_by_name(tiny, tmp_path, damage):
    source = Path(store.folder(tiny().model, Path(tiny().results_dir)))
    folder = damaged_copy(source, tmp_path / "damaged", damage)
    x = tiny("model.pretrain=null", f"model.path={folder}")
    with pytest.raises(UserError, match=f"model.path={folder}: ") as caught:
        train(x, progress=False)
    assert "fetch" in str(caught.value)


def test_a_missing_model_is_refused_by_name(tiny, tmp_path):
    x = tiny("model.pretrain=null", f"model.path={tmp_path}/nowhere")
    with pytest.raises(
        UserError, match=r"model\.path=.*nowhere: cannot be loaded .* give a folder"
    ):
        train(x, progress=False)


@pytest.mark.parametrize("damage", ["cut", "empty", "bit", "text", "other model", "pickle"])
def test_a_damaged_checkpoint_is_refused_by_name(tiny, tmp_path, damage):
    loop = make_loop(tiny(), tmp_path)
    loop.step = 2
    checkpoint.save(loop.folder / "checkpoint.pt", loop)
    path = tmp_path / "checkpoint.pt"
    assert make_loop(tiny(), tmp_path).step == 2
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "bit":  # of a weight
        data = bytearray(path.read_bytes())
        weights = loop.model.get_input_embeddings().weight.detach().numpy().tobytes()
        data[data.index(weights[:64]) + 7] ^= 1
        path.write_bytes(data)
    elif damage == "text":
        path.write_text("no checkpoint")
    elif damage == "other model":
        torch.save({"step": 2, "model": {}, "optimizer": {}}, path)
    else:
        torch.save({"step": 2, "model": Unpickled()}, path)
    with pytest.raises(UserError, match=f"{path} is damaged .*; delete it to train from the start"):
        make_loop(tiny(), tmp_path)


class Unpickled:
    def __reduce__(self):
        return os._exit, (3,)  # would end the tests: a checkpoint is data, never a program
