"""DLC in vLLM: the policy and its memory network as one model that vLLM samples from.

A joint checkpoint is the policy's own (its tensors, its tokenizer) with the memory network's
tensors beside them as `memory.*`, and in config.json what `vllm_dlc_model.py` needs to build both.
Transformers loads the policy from it and leaves the rest. vLLM's log-probabilities are those of
the calibrated distribution, softmax((f_theta - mu f_phi) / temperature).

vLLM finds the model class through the entry point `vllm.general_plugins` (rlvr_dlc =
common.rollout.vllm_dlc:register), which it loads in every process of an engine.

In verl's rollouts the joint model is built from the policy's checkpoint by `hf_overrides`, and
verl's transfer of weights brings the weights of both models (common/backends/verl/worker.py).
"""

import json
import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from common.errors import UserError
from common.rollout.dlc import MemoryNetwork

if TYPE_CHECKING:
    import vllm
    from transformers import PretrainedConfig

ARCHITECTURE = "CalibratedForCausalLM"
PREFIX = "memory."
SYNC = f"{__name__}.Sync"  # worker_extension_cls that an engine needs for `send`


def register() -> None:
    """Register the joint model with vLLM in this process, without importing it (vLLM's plugin)."""
    from vllm import ModelRegistry

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, f"{__name__}_model:{ARCHITECTURE}")


def require_plugin() -> None:
    """Raise UserError if vLLM would not find `register` in its processes."""
    found = [plugin.value for plugin in entry_points(group="vllm.general_plugins")]
    if f"{__name__}:register" not in found:
        raise UserError(
            "method.sampler with vLLM: vLLM does not find our plugin; install this version of the "
            "project again: make setup-cluster, on a machine without a GPU setup-cluster-cpu"
        )


def save(policy, memory: MemoryNetwork, tokenizer, path: Path) -> None:
    """Write the joint checkpoint of two models of transformers to the folder `path`."""
    policy.save_pretrained(path)
    tokenizer.save_pretrained(path)
    single = path / "model.safetensors"
    index = path / "model.safetensors.index.json"
    if index.exists():  # a policy of several files: vLLM reads the files that the index names
        listed = json.loads(index.read_text())
        listed["weight_map"] |= dict.fromkeys(tensors(memory), "memory.safetensors")
        index.write_text(json.dumps(listed))
        save_file(tensors(memory), path / "memory.safetensors", {"format": "pt"})
    else:
        save_file(load_file(single) | tensors(memory), single, {"format": "pt"})
    config = json.loads((path / "config.json").read_text())
    memory.model.config.architectures = [type(memory.model).__name__]
    config |= description(AutoConfig.from_pretrained(path), memory.model.config, memory.mu)
    (path / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True))


def description(policy: "PretrainedConfig", memory: "PretrainedConfig", mu: float) -> dict:
    """Return the entries that the policy's config.json needs in addition, for vLLM to build the
    joint model. Both configurations must be of saved models."""
    return {
        "architectures": [ARCHITECTURE],
        "policy_architecture": policy.architectures[0],
        "policy_tied": bool(policy.tie_word_embeddings),
        "memory_architecture": memory.architectures[0],
        "memory_config": memory.to_dict(),
        "memory_mu": mu,
    }


def tensors(memory: MemoryNetwork) -> dict[str, torch.Tensor]:
    """Return the memory network's weights, named as in a joint checkpoint, a tied head once."""
    state = memory.model.state_dict()
    if memory.model.config.tie_word_embeddings:
        del state["lm_head.weight"]
    return {PREFIX + name: tensor.detach().contiguous() for name, tensor in state.items()}


def send(llm: "vllm.LLM", memory: MemoryNetwork) -> None:
    """Give a running engine (made with worker_extension_cls=SYNC) the memory's current weights.

    The prompts' cached keys and values belong to the old weights and are dropped.
    """
    with tempfile.TemporaryDirectory(prefix="rlvr-") as folder:
        path = Path(folder) / "memory.safetensors"
        save_file(tensors(memory), path)
        llm.collective_rpc("load_memory", args=(str(path),))
    if not llm.reset_prefix_cache():
        raise UserError("vLLM keeps its prompt cache while it samples; send between two batches")


class Sync:
    """Methods called in each worker of a joint model; vLLM mixes this into its worker class."""

    model_runner: Any  # the worker's

    def load_memory(self, path: str) -> int:
        """Load the tensors of a safetensors file into the joint model. Return their number."""
        given = load_file(path)
        self.model_runner.model.load_weights(iter(given.items()))
        return len(given)

    def set_memory_weight(self, mu: float) -> None:
        """Set mu from now on; 0 gives the policy alone. The caches are valid for every mu."""
        self.model_runner.model.mu = mu
