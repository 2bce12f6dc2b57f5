"""A pretended CUDA device, so that the local backend's way through a GPU runs without one.

    import fakecuda
    fakecuda.install(gb=80)    # once in a process, before its first backward pass

Real numbers (the CPU's kernels), the refusals of a GPU, counted synchronisations, counted and
limited memory that is poisoned while it is new, graphs that record and replay. It cannot show the
numerics of CUDA's kernels, races between streams, fragmentation or speed. In every finding it is
the first suspect.
"""

import contextlib
import types
from collections import Counter

import torch

from fakecuda import build

NAME = "a pretended GPU"


def install(gb: float = 80.0) -> None:
    """Give this process one pretended GPU. Raises RuntimeError where `build.missing` says why."""
    if why := build.missing():
        raise RuntimeError(why)
    import torch._dynamo  # an optimiser imports it, and it knows functions of torch.cuda by name

    torch.ops.load_library(str(build.built()))
    set_memory(gb)
    for name, value in _surface().items():
        setattr(torch.cuda, name, value)
    torch._C._cuda_getDeviceCount = lambda: 1
    torch._C._cuda_getCurrentRawStream = lambda _: 0
    _storages()


def set_memory(gb: float) -> None:
    torch.ops.fakecuda.set_limit(int(gb * 2**30))


def synchronisations() -> Counter:
    """What the host waited for since the last call, with how often."""
    return Counter(torch.ops.fakecuda.waits())


class Stream:
    cuda_stream = stream_id = device_index = 0
    device_type = 1

    def __init__(self, *_, **__):
        self.device = torch.device("cuda", 0)

    def wait_stream(self, _) -> None: ...

    def wait_event(self, _) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event=None) -> "Event":
        return event or Event()

    def synchronize(self) -> None:
        torch.ops.fakecuda.wait_for("stream.synchronize")


class Event:
    def __init__(self, *_, **__): ...

    def record(self, *_) -> None: ...

    def wait(self, *_) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, _) -> float:
        return 0.0

    def synchronize(self) -> None:
        torch.ops.fakecuda.wait_for("event.synchronize")


class Device(contextlib.nullcontext):
    """torch.cuda.device(...): there is only one."""

    def __init__(self, *_):
        super().__init__()


def _surface() -> dict:
    """The part of torch.cuda that calls what a build without CUDA lacks."""
    from fakecuda.graphs import CUDAGraph, graph

    figure, stream = torch.ops.fakecuda.figure, Stream()
    about = types.SimpleNamespace(
        name=NAME,
        total_memory=figure("limit"),
        major=9,
        minor=0,
        multi_processor_count=132,
        L2_cache_size=50 << 20,
    )
    generator = torch.Generator("cuda")  # one of its own, to reach the default through
    ops = torch.ops.fakecuda

    def nothing(*_, **__) -> None: ...

    idle = "init _lazy_init set_device empty_cache ipc_collect set_stream set_sync_debug_mode"
    return {
        **dict.fromkeys(idle.split(), nothing),
        **dict.fromkeys(("is_available", "is_initialized", "_is_compiled"), lambda: True),
        **dict.fromkeys(("memory_allocated", "memory_reserved"), lambda *_: figure("held")),
        **dict.fromkeys(("max_memory_allocated", "max_memory_reserved"), lambda *_: figure("peak")),
        **dict.fromkeys(("manual_seed", "manual_seed_all"), lambda seed: ops.seed(seed)),
        **dict.fromkeys(("current_stream", "default_stream"), lambda *_: stream),
        **dict.fromkeys(("device", "_DeviceGuard"), Device),
        "_initialized": True,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "synchronize": lambda *_: ops.wait_for("synchronize"),
        "get_device_name": lambda *_: NAME,
        "get_device_properties": lambda *_: about,
        "get_device_capability": lambda *_: (9, 0),
        "is_bf16_supported": lambda *_, **__: True,
        "mem_get_info": lambda *_: (figure("limit") - figure("held"), figure("limit")),
        "reset_peak_memory_stats": lambda *_: ops.reset_peak(),
        "default_generators": (generator,),
        "get_rng_state": lambda *_: ops.rng_state(),
        "set_rng_state": lambda state, *_: ops.set_rng_state(state),
        "get_rng_state_all": lambda: [ops.rng_state()],
        "set_rng_state_all": lambda states: ops.set_rng_state(states[0]),
        "Stream": Stream,
        "Event": Event,
        "stream": lambda _: contextlib.nullcontext(),
        "CUDAGraph": CUDAGraph,
        "graph": graph,
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": lambda: False,
    }


def _storages() -> None:
    """Storages are made by their device's name in C++, which a build without CUDA does not know."""
    kind, to_host = torch.UntypedStorage, torch.UntypedStorage.to

    def to(self, *, device, non_blocking=False):
        wanted = torch.device(device)
        if wanted.type != "cuda":
            return to_host(self, device=device, non_blocking=non_blocking)
        if self.device.type == "cuda":
            return self
        held = torch.empty(self.nbytes(), dtype=torch.uint8, device="cuda")
        held.copy_(torch.empty(0, dtype=torch.uint8).set_(self), non_blocking=non_blocking)
        return held.untyped_storage()

    resize_on_host = kind.resize_

    def resize_(self, size: int):
        if self.device.type != "cuda":
            return resize_on_host(self, size)
        tensor = torch.empty(0, dtype=torch.uint8, device="cuda").set_(self)
        torch.ops.fakecuda.resize_storage(tensor, size)
        return self

    on_host = kind.clone

    def clone(self):
        if self.device.type != "cuda":
            return on_host(self)
        return torch.empty(0, dtype=torch.uint8, device="cuda").set_(self).clone().untyped_storage()

    kind.to, kind.clone, kind.resize_ = to, clone, resize_
    kind.cuda = lambda self, device=None, non_blocking=False: to(
        self, device="cuda", non_blocking=non_blocking
    )
