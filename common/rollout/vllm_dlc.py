"""DLC in vLLM: the policy and its memory network as one model that vLLM samples from.

vLLM's log-probabilities are those of the calibrated distribution,
softmax((f_theta - mu f_phi) / temperature).

vLLM finds the model class through the entry point `vllm.general_plugins` (rlvr_dlc =
common.rollout.vllm_dlc:register), which it loads in every process of an engine.

The joint model is built from the policy's checkpoint by `hf_overrides` (vllm_dlc_model.py), and
verl's transfer of weights brings the weights of both models, those of the memory network as
`memory.*` (common/backends/verl/worker.py).
"""

from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.errors import UserError

if TYPE_CHECKING:
    from transformers import PretrainedConfig

ARCHITECTURE = "CalibratedForCausalLM"
PREFIX = "memory."


def register() -> None:
    """Register the joint model with vLLM in this process, without importing it (vLLM's plugin).

    Also let all engines of this user share what vLLM finds out about a model's class, in a process
    that takes ten seconds. It is small and checked by the hash of the class's file, so it need not
    be as short-lived as the other caches of vLLM (slurm/environment.py)."""
    import vllm
    from vllm import ModelRegistry
    from vllm.model_executor.models.registry import _LazyRegisteredModel

    kept = Path.home() / ".cache" / "vllm" / "modelinfos" / vllm.__version__
    _LazyRegisteredModel._get_cache_dir = staticmethod(lambda: kept)
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


def description(policy: "PretrainedConfig", memory: "PretrainedConfig", mu: float) -> dict:
    """Return the entries that the policy's config.json needs in addition, for vLLM to build the
    joint model. Both configurations must come from saved models."""
    return {
        "architectures": [ARCHITECTURE],
        "policy_architecture": policy.architectures[0],
        "policy_tied": bool(policy.tie_word_embeddings),
        "memory_architecture": memory.architectures[0],
        "memory_config": memory.to_dict(),
        "memory_mu": mu,
    }


class Sync:
    """What is called in each worker of a joint model; vLLM mixes this into its worker class."""

    model_runner: Any  # the worker's

    def set_memory_weight(self, mu: float) -> None:
        """Set mu from now on; 0 gives the policy. The caches are valid for every mu.

        On a GPU `model_runner.model` is vLLM's CUDAGraphWrapper, which forwards reads and keeps
        writes to itself.
        """
        self.model_runner.get_model().mu = mu
