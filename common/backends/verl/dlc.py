"""DLC's memory network (common/rollout/dlc.py) for verl: a checkpoint of its first weights, and the
keys with which vLLM builds the joint model and verl's worker trains the network."""

from pathlib import Path

from transformers import AutoConfig

from common.backends.sizes import facts
from common.errors import require
from common.experiment import Experiment
from common.models.load import load_model
from common.models.store import save
from common.rollout import vllm_dlc
from common.rollout.dlc import check_vocabulary, memory_network

FOLDER = "memory"  # in the work folder: the memory network before the first step


def prepare(x: Experiment, work: Path, policy: tuple, longest: int) -> None:
    """Write the method's memory network before the first step, or check the checkpoint that it
    gives. `policy`: (configuration, tokenizer); `longest`: tokens of prompt and response."""
    sampler = x.method.sampler
    if sampler is None:
        return
    vllm_dlc.require_plugin()
    if sampler.path is not None:
        tokenizer, described = facts(sampler.path, "method.sampler.path")
        check_vocabulary(sampler.path, (described, tokenizer), policy)
        context = described.max_position_embeddings
        said = f"its context is {context} tokens, and prompt and response have up to {longest}"
        remedy = f"{said}; lower sampling.max_tokens and eval.max_tokens, or take another"
        require(context >= longest, "method.sampler.path", sampler.path, remedy)
        return
    if (work / FOLDER).exists():
        return
    model, tokenizer = load_model(x.model, Path(x.results_dir).resolve(), "cpu")
    memory = memory_network(sampler, model, tokenizer, x.seed)
    whole = work / f".{FOLDER}.tmp"
    save(memory.model, tokenizer, whole)
    whole.rename(work / FOLDER)


def settings(x: Experiment, work: Path, policy: str) -> dict[str, object]:
    """Return the keys of verl's configuration; none for a method without a memory network."""
    sampler = x.method.sampler
    if sampler is None:
        return {}
    path = sampler.path or str(work / FOLDER)
    joint = vllm_dlc.description(
        AutoConfig.from_pretrained(policy), AutoConfig.from_pretrained(path), sampler.mu
    )
    engine = "actor_rollout_ref.rollout.engine_kwargs"
    return {
        f"{engine}.vllm.hf_overrides": joint,
        f"{engine}.memory": {"path": path, "lr": sampler.lr},  # AdamW's, constant
    }
