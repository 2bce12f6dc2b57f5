"""Load a Hugging Face causal LM by folder or hub id, or a tiny one that is pretrained here."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from common.config.schema import Model
from common.errors import UserError, require
from common.models.store import folder


def device(asked: str) -> str:
    """Return "cpu" or "cuda" for the device that a configuration asks for. Raises UserError for
    "cuda" without a GPU, and for "mps"."""
    has_gpu = torch.cuda.is_available()
    require(asked != "mps", "device", asked, "Apple's GPU has no float64; take device=cpu")
    require(has_gpu or asked != "cuda", "device", asked, "there is no GPU here; use device=cpu")
    return "cuda" if has_gpu and asked != "cpu" else "cpu"


def load_model(model: Model, results_dir: Path, device: str):
    """Return (model in float32 evaluation mode, tokenizer); a tiny model that does not exist yet is
    pretrained first. Raises UserError as `load_checkpoint` does."""
    path = folder(model, results_dir)
    if model.pretrain is not None and not (Path(path) / "DONE").exists():
        from common.models.pretrain import pretrain  # once for each base model

        pretrain(model.pretrain, Path(path), device)
    return load_checkpoint(path, device, key="model.path")


def load_checkpoint(path: str, device: str, *, key: str):
    """Return (model in float32 evaluation mode, tokenizer) of a folder or hub id given by `key`.

    Raises UserError if the path is missing, its files cannot be read or weights are missing.
    """
    from transformers.utils import logging

    from common.models.hf import AutoModelForCausalLM

    logging.disable_progress_bar()  # as in store.save
    tokenizer = load_tokenizer(path, key=key)
    with reading(path, key) as cached:
        model, loading = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, output_loading_info=True, local_files_only=cached
        )
    if loading["missing_keys"]:  # transformers would only warn and take random ones
        raise UserError(
            f"{key}={path}: has no weights for {sorted(loading['missing_keys'])[:3]}; "
            "fetch the model again, or delete the cached folder"
        )
    return model.to(device).eval(), tokenizer


def load_tokenizer(path: str, *, key: str):
    """Return the tokenizer of `load_checkpoint` without the model. Raises UserError as it does."""
    tokenizer = read_tokenizer(path, key=key)
    if tokenizer.eos_token_id is None:  # a response would never end
        raise UserError(
            f"{key}={path}: its tokenizer has no end token; set eos_token in tokenizer_config.json"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def read_tokenizer(path: str, *, key: str, revision: str = "main"):
    """Return a stored tokenizer. Raises UserError if it cannot be read."""
    from common.models.hf import AutoTokenizer

    with reading(path, key) as cached:
        return AutoTokenizer.from_pretrained(path, revision=revision, local_files_only=cached)


def input_ids(tokenizer, texts: list[str]) -> list[list[int]]:
    """Return the token ids of each prompt. A text without its tokenizer's begin token gets it where
    the tokenizer adds one by itself (Llama, Gemma): the model never saw a text without it."""
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
    begin = getattr(tokenizer, "bos_token_id", None)
    if begin is None or tokenizer("")["input_ids"][:1] != [begin]:
        return rows
    return [row if row[:1] in ([], [begin]) else [begin, *row] for row in rows]


@contextmanager
def reading(path: str, key: str) -> Iterator[bool]:
    """Yield `only_cached`, and turn any exception while the files are read into a UserError."""
    try:
        yield only_cached(path, key)
    except UserError:
        raise
    except Exception as error:  # transformers raises many kinds for a missing or damaged checkpoint
        remedy = "give a folder with a causal LM and its tokenizer, or a hub id that can be reached"
        if Path(path).exists():
            remedy = (
                "its files are damaged or hold no causal LM; fetch them again, or delete the cache"
            )
        reason = str(error).split("\n")[0][:300]
        raise UserError(f"{key}={path}: cannot be loaded ({reason}); {remedy}") from error


def only_cached(path: str, key: str) -> bool:
    """Return whether a hub id is available from the cache only; False for a folder or in offline
    mode. One request tells at once what `from_pretrained` tells after a minute of retries. Raises
    UserError if the hub has no such model."""
    import huggingface_hub
    from httpx import HTTPError
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    if Path(path).is_dir() or huggingface_hub.constants.HF_HUB_OFFLINE:
        return False
    try:
        huggingface_hub.HfApi().model_info(path, timeout=10)
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise UserError(
            f"{key}={path}: is neither a folder nor a hub model that this login may read; "
            "correct it, or run `hf auth login`"
        ) from error
    except (HTTPError, OSError):
        return True
    return False
