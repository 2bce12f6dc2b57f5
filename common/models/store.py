"""Where a model's weights are, what they are named after, and how they are saved."""

import os
from pathlib import Path

from common.config.schema import Model, hashed
from common.errors import UserError
from common.results.files import config_hash, write


def identity(model: Model) -> str:
    """Name and hash of what the weights come from: the path, or the pretraining configuration."""
    source = {key: value for key, value in hashed(model).items() if key != "chat"}
    return f"{model.name}-{config_hash(source)}"


def folder(model: Model, results_dir: Path) -> str:
    """Where the weights are: `model.path`, or the cache folder of the model that `pretrain`
    describes."""
    return model.path or str(results_dir / "models" / identity(model))


def save(model, tok, path: Path) -> None:
    """A Hugging Face checkpoint at `path`, atomically: written beside it and renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        model.save_pretrained(temporary)
        tok.save_pretrained(temporary)
        for file in temporary.iterdir():
            write(path / file.name, file.read_bytes())
            file.unlink()
        temporary.rmdir()
    except OSError as error:
        raise UserError(
            f"cannot write model to {path}: {error.strerror}; free space or set results_dir=FOLDER"
        ) from error
