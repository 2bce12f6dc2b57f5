"""CUDA graphs of the pretended device: what a recording does and what a replay repeats."""

import contextlib

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

ops = torch.ops.fakecuda


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """All of its storage, as uint8."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)


class Recorder(TorchDispatchMode):
    """Notes each operator with the tensors that it read and made. The operators run, so that shapes
    are known; what they wrote to tensors of outside is put back in `finish`."""

    def __init__(self):
        super().__init__()
        self.tape: list[tuple] = []  # operator, its arguments, what it returned
        self.made: dict[int, torch.Tensor] = {}  # by the address of its storage
        self.outside: dict[int, StorageWeakRef] = {}
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.note(operator, args, kwargs)
        out = operator(*args, **kwargs)
        returned = [one for one in tree_iter(out) if isinstance(one, torch.Tensor)]
        for one in returned:
            address = one.untyped_storage().data_ptr()
            if address and address not in self.outside:
                self.made.setdefault(address, one)
        held = tree_map_only(torch.Tensor, self.held, (args, kwargs))
        self.tape.append((operator, *held, [self.held(one) for one in returned]))
        return out

    def note(self, operator, args, kwargs) -> None:
        """Tensors of outside that an operator reads, and the bytes of those that it writes."""
        named = {argument.name: argument for argument in operator._schema.arguments}
        given = dict(zip(named, args, strict=False)) | kwargs
        for name, value in given.items():
            alias = named[name].alias_info
            for tensor in tree_iter(value):
                if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda:
                    continue
                address = tensor.untyped_storage().data_ptr()
                if not address or address in self.made:
                    continue
                self.outside.setdefault(address, StorageWeakRef(tensor.untyped_storage()))
                if alias is not None and alias.is_write and address not in self.before:
                    self.before[address] = (bytes_of(tensor), bytes_of(tensor).clone())

    def held(self, tensor: torch.Tensor) -> torch.Tensor:
        """As the tape keeps it: memory of outside by its address alone, as a graph does."""
        inside = not tensor.is_cuda or tensor.untyped_storage().data_ptr() in self.made
        return tensor.detach() if inside else ops.unowned(tensor)

    def finish(self) -> None:
        """Nothing has run yet: memory of outside is as it was, that of the graph holds anything:
        nan, and 0 for whole numbers, because a second recording may index with them (on a true
        GPU it computes nothing)."""
        for now, before in self.before.values():
            now.copy_(before)
        self.before.clear()
        for tensor in self.made.values():
            bytes_of(tensor).fill_(0xFF if tensor.is_floating_point() else 0)


class CUDAGraph:
    recorded = replayed = 0  # of all graphs, for the tests

    def __init__(self, keep_graph: bool = False):
        self.recorder: Recorder | None = None

    def capture_begin(self, *_, **__) -> None:
        self.recorder = Recorder()
        ops.set_capturing(True)
        self.recorder.__enter__()

    def capture_end(self) -> None:
        self.recorder.__exit__(None, None, None)
        ops.set_capturing(False)
        self.recorder.finish()
        CUDAGraph.recorded += 1

    @torch.no_grad()
    def replay(self) -> None:
        gone = [ref for ref in self.recorder.outside.values() if ref.expired()]
        if gone:
            raise RuntimeError(
                f"CUDA error: an illegal memory access: {len(gone)} tensors are gone"
            )
        CUDAGraph.replayed += 1
        for operator, args, kwargs, outs in self.recorder.tape:
            again = operator(*args, **kwargs)
            news = [one for one in tree_iter(again) if isinstance(one, torch.Tensor)]
            for old, new in zip(outs, news, strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)

    def reset(self) -> None:
        self.recorder = None

    def pool(self) -> tuple[int, int]:
        return (0, 0)


@contextlib.contextmanager
def graph(one: CUDAGraph, *_, **__):
    ops.wait_for("graph")
    one.capture_begin()
    try:
        yield
    finally:
        one.capture_end()
