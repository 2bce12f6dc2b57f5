"""verl and vLLM on a machine without a GPU, as a stand-in (common/backends/verl/stand_in.py): what
a run of backend=verl needs on a CPU, nothing for speed. Every process of a launch has ENVIRONMENT,
and those of verl import MODULES.

Each launch has one pretended GPU, or RANKS (environment), each with a process of training and a
vLLM. Everything is in float32, so that the numbers can be compared with the local backend's.
"""

import os
from pathlib import Path

from common.backends.verl.config import Place
from common.experiment import Experiment
from common.models import store

ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # the name that verl's FSDP engine is registered for
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # vLLM would claim cores by number
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "TORCHDYNAMO_DISABLE": "1",  # g++ takes longer than a step for three kernels of vLLM's sampler
    # for a small machine that others use too
    "RAY_memory_usage_threshold": "0.99",
    "RAY_health_check_failure_threshold": "100",
}
MODULES = ("verl_cpu.platform",)
PASSED = tuple(name for name in ENVIRONMENT if not name.startswith("RAY_"))
FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def place(x: Experiment, folder: Path) -> Place:
    """Return the Place of pretended GPUs on this machine, and set the environment of launches."""
    os.environ.update(ENVIRONMENT)
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray sets it for GPUs that do not exist
    return Place(
        device="cpu",
        nodes=1,
        gpus=int(os.environ.get("RANKS", "1")),
        cpus=None,
        work=folder / "work",
        model=store.folder(x.model, Path(x.results_dir).resolve()),
    )


def settings(x: Experiment, place: Place) -> dict[str, object]:
    """Return verl's keys of a run on a CPU. AGENT_LOOPS (environment) names a test's agent loop."""
    loops = os.environ.get("AGENT_LOOPS")
    return {
        **({f"{ROLLOUT}.agent.agent_loop_config_path": loops} if loops else {}),
        "ray_kwargs.ray_init.num_cpus": 16,  # only counted: each of verl's actors reserves one
        "ray_kwargs.ray_init.num_gpus": place.gpus,  # these do not exist; each gets a process
        "ray_kwargs.ray_init.object_store_memory": 200_000_000,  # bytes
        "actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        "actor_rollout_ref.model.use_remove_padding": False,  # needs flash-attn
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        f"{ACTOR}.use_dynamic_bsz": False,
        f"{ACTOR}.use_torch_compile": False,
        f"{ACTOR}.fsdp_config.use_torch_compile": False,
        # fsdp_config.dtype alone leaves bfloat16 autocast on
        f"{ACTOR}.fsdp_config.mixed_precision": FP32,
        f"{ACTOR}.fsdp_config.dtype": "float32",
        "actor_rollout_ref.ref.fsdp_config.mixed_precision": FP32,
        "actor_rollout_ref.ref.fsdp_config.dtype": "float32",
        f"{ROLLOUT}.dtype": "float32",
        f"{ROLLOUT}.temperature": x.sampling.temperature,
        f"{ROLLOUT}.enforce_eager": True,
        f"{ROLLOUT}.free_cache_engine": False,
        f"{ROLLOUT}.enable_sleep_mode": False,
        f"{ROLLOUT}.max_num_seqs": 64,
        f"{ROLLOUT}.agent.num_workers": 1,
        # all weights of a test's models: with a second bucket vLLM's worker dies of "cannot close
        # exported pointers exist" while the driver waits (verl 0.9.1)
        f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": 16,
        "reward.num_workers": 1,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    }


def adapt(worker: type) -> None:
    """Change worker.PolicyWorker: verl pins the reference model's memory, which torch can do only
    for accelerators."""
    from verl.workers.engine.fsdp import transformer_impl

    transformer_impl.CPUOffloadPolicy = lambda pin_memory: None
