import os

import pytest
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from common.config.schema import Model, Pretrain
from common.errors import Fault, UserError
from common.models.load import load_model
from common.models.pretrain import random_model, tokenizer
from common.models.store import folder, save

SIZES = dict(hidden_size=16, layers=1, heads=2, kv_heads=1, intermediate_size=16)
REST = dict(demonstrations=1, epochs=1, batch_size=1, lr=1.0, embedding_lr=1.0)
TINY = Pretrain(**REST, **SIZES, initializer_range=0.02, rope_theta=1e4, seed=0)


def test_a_model_without_some_of_its_weights_is_refused(tmp_path):
    """transformers only warns, and would train on with random ones."""
    tok, path = tokenizer(), tmp_path / "model"
    save(random_model(TINY, tok), tok, path)
    model = Model(name="m", path=str(path), chat=None, pretrain=None)
    load_model(model, tmp_path, "cpu")
    weights = load_file(path / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"has no weights for \['model.norm.weight'\]"):
        load_model(model, tmp_path, "cpu")


def test_a_disk_that_fills_while_a_model_is_saved(tmp_path, monkeypatch):
    """A job is tried again, and nothing of the model stays behind; nor does what a kill left."""
    tok, path = tokenizer(), tmp_path / "model"
    for name in ("old", "young"):
        (tmp_path / f".{name}.1.tmp").mkdir()
    os.utime(tmp_path / ".old.1.tmp", (0, 0))
    model = random_model(TINY, tok)

    def full(*_, **__):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    save(model, tok, path)
    monkeypatch.setattr("transformers.modeling_utils.safe_save_file", full)
    with pytest.raises(Fault, match=f"{path}: I/O error: No space left"):
        save(model, tok, path)
    assert {one.name for one in tmp_path.iterdir()} == {"model", ".young.1.tmp"}


COMMIT = "c" * 40


def at(revision: str | None, path: str = "some/model") -> Model:
    return Model(name="m", path=path, chat=None, pretrain=None, revision=revision)


def test_a_revision_is_read_from_the_hubs_cache(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    files = tmp_path / "hub" / "models--some--model" / "snapshots" / COMMIT
    with pytest.raises(UserError, match=rf"model\.revision={COMMIT}: .* hf download some/model"):
        folder(at(COMMIT), tmp_path)
    files.mkdir(parents=True)
    (files / "config.json").write_text("{}")
    assert folder(at(COMMIT), tmp_path) == str(files)
    assert folder(at(None), tmp_path) == "some/model"  # as before there were revisions
    assert folder(at(COMMIT, str(files)), tmp_path) == str(files)  # a folder has none
