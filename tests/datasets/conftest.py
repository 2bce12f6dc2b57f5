"""Fixtures that several files of this folder share."""

import json
from pathlib import Path

import pytest

from common.datasets import hub as hub_module


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """hub(id, revision, {file: rows}) puts a repository into an otherwise empty hub cache."""
    import huggingface_hub
    from datasets import Dataset

    cache = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.delenv(hub_module.LOCAL, raising=False)

    def put(hub_id: str, revision: str, files: dict[str, list[dict]]) -> Path:
        repository = cache / f"datasets--{hub_id.replace('/', '--')}"
        commit = revision if len(revision) == 40 else "c" * 40
        folder = repository / "snapshots" / commit
        (repository / "refs").mkdir(parents=True, exist_ok=True)
        (repository / "refs" / revision).write_text(commit)
        for name, rows in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".parquet"):
                Dataset.from_list(rows).to_parquet(folder / name)
            else:
                (folder / name).write_text("\n".join(map(json.dumps, rows)))
        return folder

    return put


@pytest.fixture
def local(tmp_path, monkeypatch):
    """local(rows) is a file in our shape; local(rows, name) puts it under $RLVR_DATA."""

    def put(rows: list[dict], name: str = "own.jsonl") -> str:
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
        monkeypatch.setenv(hub_module.LOCAL, str(tmp_path))
        return str(tmp_path / name)

    return put


@pytest.fixture
def tokenizer(tmp_path):
    """tokenizer(name, template) is the path of a tokenizer that counts words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    def put(name: str, template: str | None = None) -> str:
        words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        made = PreTrainedTokenizerFast(tokenizer_object=words, chat_template=template)
        made.save_pretrained(tmp_path / name)
        return str(tmp_path / name)

    return put
