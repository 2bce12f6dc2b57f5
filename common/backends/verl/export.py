"""The export of verl's FSDP checkpoint as a Hugging Face one, in the precision of sampling."""

import json
import shutil
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor
from transformers import AutoConfig, GenerationConfig

from common.errors import UserError
from common.models.hf import AutoModelForCausalLM, AutoTokenizer
from common.models.store import save


def export(checkpoint: Path, path: Path, device: str) -> None:
    """Save the merged shards of `checkpoint` (`global_step_N/actor`) to `path`, in bfloat16 after a
    run on GPUs, where vLLM sampled so. Raises UserError if a shard is missing or does not fit."""
    described = checkpoint / "huggingface"  # configuration and tokenizer; verl keeps them there
    dtype = torch.float32 if device == "cpu" else torch.bfloat16  # verl's merger: always bfloat16
    with torch.device("meta"):  # make no weights, they would be overwritten
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(described), dtype=dtype)
    if (described / "generation_config.json").exists():  # it may name more end tokens
        model.generation_config = GenerationConfig.from_pretrained(described)
    weights = merge(checkpoint, dtype)
    missing, unexpected = model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    if unexpected or set(missing) - tied:
        raise UserError(
            f"{checkpoint}: does not fit its model, missing {missing[:3]}, unknown "
            f"{unexpected[:3]}; it is damaged or of another version"
        )
    whole = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(whole, ignore_errors=True)
    save(model, AutoTokenizer.from_pretrained(described), whole)
    shutil.rmtree(path, ignore_errors=True)
    whole.rename(path)


def merge(checkpoint: Path, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    world = json.loads((checkpoint / "fsdp_config.json").read_text())["world_size"]
    parts: dict[str, list] = {}
    for rank in range(world):
        shard = checkpoint / f"model_world_size_{world}_rank_{rank}.pt"
        if not shard.exists():
            raise UserError(f"{shard}: missing; all {world} ranks must write to the same folder")
        for name, tensor in torch.load(shard, map_location="cpu", weights_only=True).items():
            parts.setdefault(name, []).append(tensor)
    return {name: join(tensors).to(dtype) for name, tensors in parts.items()}


def join(tensors: list) -> torch.Tensor:
    first = tensors[0]
    if not isinstance(first, DTensor):
        return first
    cuts = [placement for placement in first.placements if placement.is_shard()]
    if not cuts:
        return first.to_local()
    if len(first.placements) != 1:
        raise UserError(f"placements {first.placements}: only fully sharded models can be exported")
    return torch.cat([tensor.to_local() for tensor in tensors], dim=cuts[0].dim)
