"""A CPU platform for verl, for tests: `VERL_PLATFORM=cpu VERL_USE_EXTERNAL_MODULES=verl_cpu`.

Only what verl's FSDP engine asks for in one process; no Ray, no vLLM.
"""

import os
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import torch
import verl.utils.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def nothing(*_) -> None:
    """Stands for what an accelerator must do and a CPU need not."""


DEVICE = SimpleNamespace(  # stands for torch.cuda
    is_available=lambda: True,
    device_count=lambda: 1,
    current_device=lambda: "cpu",
    set_device=nothing,
    synchronize=nothing,
    empty_cache=nothing,
    ipc_collect=nothing,
    manual_seed=torch.manual_seed,
    manual_seed_all=torch.manual_seed,
    get_rng_state=lambda *_: torch.get_rng_state(),
    set_rng_state=lambda state, *_: torch.set_rng_state(state),
    memory_allocated=lambda *_: 0,
    memory_reserved=lambda *_: 0,
    max_memory_allocated=lambda *_: 0,
    max_memory_reserved=lambda *_: 0,
    reset_peak_memory_stats=nothing,
    mem_get_info=lambda *_: (1 << 30, 1 << 30),
    get_device_name=lambda *_: "cpu",
    Stream=torch.cpu.Stream,
    current_stream=lambda *_: torch.cpu.current_stream(),
    stream=lambda _: nullcontext(),
)


@PlatformRegistry.register(platform="cpu")
class CPU(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = DEVICE
    set_device = synchronize = empty_cache = set_allocator_settings = nothing
    profiler_start = profiler_stop = cudart = nothing

    def is_available(self):
        return True

    def is_platform_available(self, use_smi_check=False):
        return os.environ.get("VERL_PLATFORM") == "cpu"

    def current_device(self):
        return torch.device("cpu")  # an integer would mean a GPU to tensor.to()

    def device_count(self):
        return 1

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg):
        yield

    def ray_resource_name(self):
        return "GPU"

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False


_initialize = verl.utils.distributed.initialize_global_process_group_ray


def initialize(timeout_second=None, backend=None):
    """verl asks for "cpu:gloo,cpu:gloo", which torch refuses as a duplicate."""
    return _initialize(timeout_second, backend or "cpu:gloo")


verl.utils.distributed.initialize_global_process_group_ray = initialize
