"""Where a model's weights are, how they are named, and how they are saved."""

import os
import shutil
from dataclasses import asdict
from pathlib import Path

from common.config.contents import contents
from common.config.files import REFERENCE
from common.config.schema import Model
from common.errors import UserError
from common.results.files import cannot_write, config_hash, sweep


def identity(model: Model) -> str:
    """Return the name and a hash of the weights' source: a path and, for a folder, its contents; or
    the pretraining configuration."""
    source = {key: value for key, value in asdict(model).items() if key != "chat"}
    named = contents(source, "results")
    return f"{model.name}-{config_hash(source | ({'contents': named} if named else {}))}"


def folder(model: Model, results_dir: Path) -> str:
    """Return where the weights are: `model.path`, the files of a hub id at `model.revision`, or the
    folder of the model that `pretrain` describes, the one of `results_dir` before the one that the
    repository keeps. Raises UserError if a revision is not available."""
    if model.path is None:
        made, kept = (home / "models" / identity(model) for home in (results_dir, REFERENCE))
        return str(kept if (kept / "DONE").exists() and not made.exists() else made)
    if model.revision is None or Path(model.path).is_dir():
        return model.path
    return download(model.path, model.revision)


def download(hub: str, revision: str | None, offline: bool = False) -> str:
    """Return the folder of a hub model's files at a revision, downloaded unless it is cached."""
    import huggingface_hub
    from httpx import HTTPError

    at = "" if revision is None else f" --revision {revision}"
    try:
        return huggingface_hub.snapshot_download(
            hub,
            revision=revision,
            allow_patterns=["*.json", "*.safetensors", "*.txt", "*.jinja", "*.model"],
            ignore_patterns=["*/*"],  # other formats, logs
            local_files_only=offline or huggingface_hub.constants.HF_HUB_OFFLINE,
        )
    except (OSError, ValueError, HTTPError) as error:
        raise UserError(
            f"model.path={hub} model.revision={revision}: not in the cache and cannot be "
            f"downloaded here ({type(error).__name__}); where the hub can be reached run: "
            f"hf download {hub}{at}, or set model.path=FOLDER"
        ) from error


def cached(hub: str, revision: str | None) -> bool:
    try:
        return any(Path(download(hub, revision, offline=True)).glob("*.safetensors"))
    except UserError:
        return False


def save(model, tok, path: Path) -> None:
    """Save a Hugging Face checkpoint at `path`: each file is written beside it, then renamed."""
    from safetensors import SafetensorError
    from transformers.utils import logging

    logging.disable_progress_bar()  # its bars for a few tensors break our progress bars
    sweep(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        model.save_pretrained(temporary)
        tok.save_pretrained(temporary)
        path.mkdir(parents=True, exist_ok=True)
        for file in temporary.iterdir():
            with open(file, "rb") as written:
                os.fsync(written.fileno())
            os.replace(file, path / file.name)
    except (OSError, SafetensorError) as error:
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
