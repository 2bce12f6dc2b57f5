"""DLC in vLLM: the policy and its memory network as one model, whose log-probabilities are those of
the calibrated distribution, softmax((f_theta - mu f_phi) / temperature).

vLLM finds the model class through the entry point `vllm.general_plugins`, which every process of an
engine loads. `hf_overrides` builds the joint model from the policy's checkpoint
(vllm_dlc_model.py); verl's transfer of weights brings the memory network as `memory.*`
(common/backends/verl/worker.py).
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
    """Register the joint model with vLLM in this process, without importing it.

    Also let all engines of this user share what vLLM finds out about a model's class in a process
    that takes ten seconds. It is checked by the class file's hash, so it may outlive vLLM's other
    caches (slurm/environment.py).
    """
    import vllm
    from vllm import ModelRegistry
    from vllm.model_executor.models.registry import _LazyRegisteredModel

    kept = Path.home() / ".cache" / "vllm" / "modelinfos" / vllm.__version__
    _LazyRegisteredModel._get_cache_dir = staticmethod(lambda: kept)
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, f"{__name__}_model:{ARCHITECTURE}")


def require_plugin() -> None:
    found = [plugin.value for plugin in entry_points(group="vllm.general_plugins")]
    if f"{__name__}:register" not in found:
        raise UserError(
            "method.sampler with vLLM: vLLM does not find our plugin; reinstall this version of "
            "the project with make setup-cluster, or make setup-cluster-cpu without a GPU"
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
    """Methods of each worker of a joint model; vLLM mixes this into its worker class."""

    model_runner: Any  # the worker's

    def set_memory_weight(self, mu: float) -> None:
        """Set mu from now on; 0 gives the policy. The caches are valid for every mu. `get_model`
        matters: on a GPU `model_runner.model` is a CUDAGraphWrapper, which keeps writes to
        itself."""
        self.model_runner.get_model().mu = mu
