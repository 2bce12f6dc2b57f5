"""Models: a Hugging Face causal LM by folder or hub id, or a tiny one made here from
demonstrations."""

from pathlib import Path

import torch

from common.config.schema import Model
from common.errors import UserError
from common.models.pretrain import pretrain
from common.models.store import folder


def load_model(model: Model, results_dir: Path, device: str):
    """(model in float32 evaluation mode, tokenizer), pretrained first if it is a tiny model not yet
    made.

    Raises UserError if the path is missing, its files cannot be read or weights are missing.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # its bars for a few tensors break ours
    path = folder(model, results_dir)
    if model.pretrain is not None and not (Path(path) / "DONE").exists():
        pretrain(model.pretrain, Path(path))
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
        policy, loading = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:  # transformers raises many kinds for a missing or damaged checkpoint
        remedy = "give a folder with a causal LM and its tokenizer, or a hub id that can be reached"
        if Path(path).exists():
            remedy = (
                "its files are damaged or no causal LM; fetch them again, or delete a cached folder"
            )
        reason = str(error).split("\n")[0][:300]
        raise UserError(f"model.path={path}: cannot be loaded ({reason}); {remedy}") from error
    if loading["missing_keys"]:  # transformers only warns, and trains on with random ones
        raise UserError(
            f"model.path={path}: has no weights for {sorted(loading['missing_keys'])[:3]}; "
            "fetch it again, or delete a cached folder"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return policy.to(device).eval(), tokenizer
