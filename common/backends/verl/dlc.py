"""DLC's memory network (common/rollout/dlc.py) for verl: its first weights as a checkpoint, and
the keys that make vLLM build the joint model and verl's worker train it. Imports no verl."""

from pathlib import Path

from transformers import AutoConfig

from common.experiment import Experiment
from common.models.load import load_model
from common.models.store import save
from common.rollout import vllm_dlc
from common.rollout.dlc import MemoryNetwork

FOLDER = "memory"  # in the work folder: the memory before the first step


def prepare(x: Experiment, work: Path) -> None:
    """Write the memory as it is before the first step, where the method has one."""
    sampler = x.method.sampler
    if sampler is None or (work / FOLDER).exists():
        return
    vllm_dlc.require_plugin()
    policy, tokenizer = load_model(x.model, Path(x.results_dir).resolve(), "cpu")
    memory = MemoryNetwork(
        policy,
        mu=sampler.mu,
        lr=sampler.lr,
        start=sampler.start,
        shrink=sampler.shrink,
        seed=x.seed,
    )
    whole = work / f".{FOLDER}.tmp"
    save(memory.model, tokenizer, whole)
    whole.rename(work / FOLDER)


def settings(x: Experiment, work: Path, policy: str) -> dict[str, object]:
    """The keys of verl's configuration; none for a method without a memory."""
    sampler = x.method.sampler
    if sampler is None:
        return {}
    joint = vllm_dlc.description(
        AutoConfig.from_pretrained(policy), AutoConfig.from_pretrained(work / FOLDER), sampler.mu
    )
    return {
        "actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides": joint,
        "actor_rollout_ref.rollout.engine_kwargs.memory": {
            "path": str(work / FOLDER),
            "lr": sampler.lr,  # of AdamW, constant
        },
    }
