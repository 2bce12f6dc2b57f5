"""The pretended GPU itself: what it refuses, counts and repeats, as CUDA does."""

import pytest
import torch

from common.rollout import recorded

pytestmark = pytest.mark.usefixtures("pretended")


def cuda(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device="cuda")


def test_two_devices_are_refused():
    a = cuda(1, 2, 3)
    with pytest.raises(RuntimeError, match=r"device|cuda"):
        torch.ones(3) + a
    with pytest.raises(RuntimeError, match=r"device|cuda"):
        a.uniform_(generator=torch.Generator())
    assert (a + torch.tensor(1.0)).tolist() == [2, 3, 4]  # numbers of the CPU are allowed


def test_what_waits_is_counted(pretended):
    a, mask = cuda(1, 2, 3), torch.tensor([True, False, True]).cuda()
    pretended.synchronisations()
    a.sum(), a * 2, a.sort(), torch.where(mask, a, 0.0), a.index_select(0, a.long() - 1)
    assert pretended.synchronisations() == {}
    a.sum().item(), a.cpu(), a[mask], mask.nonzero(), torch.cuda.synchronize()
    assert pretended.synchronisations().keys() == {
        "a number to the CPU", "copy to the CPU", "index by a mask", "aten::nonzero", "synchronize",
    }  # fmt: skip


def test_a_graph_repeats_what_it_recorded():
    a, b = cuda(1, 2, 3), torch.zeros(3, device="cuda")
    made, graph = [], torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        b += a * 2
        made.append(b + 1)
    assert b.tolist() == [0, 0, 0]  # it was recorded, not run
    assert made[0].isnan().all()
    graph.replay()
    graph.replay()
    assert b.tolist() == [4, 8, 12]
    assert made[0].tolist() == [5, 9, 13]
    a.fill_(10)  # read at its address, anew
    graph.replay()
    assert b.tolist() == [24, 28, 32]


def test_a_graph_does_not_keep_what_it_reads():
    a, out, graph = cuda(1, 2, 3), torch.zeros(3, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.copy_(a)
    graph.replay()
    del a
    with pytest.raises(RuntimeError, match="illegal memory access"):
        graph.replay()


def test_memory_is_counted_and_ends(pretended):
    before = torch.cuda.memory_allocated()
    a = torch.empty(2**20, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    b = a + 1
    view = b[1:]
    assert torch.cuda.memory_allocated() - before == 2**23
    del a, b
    assert torch.cuda.memory_allocated() - before == 2**22  # the view holds it
    assert torch.cuda.max_memory_allocated() - before == 2**23
    del view
    assert torch.cuda.memory_allocated() == before
    pretended.set_memory(0.5)
    free, total = torch.cuda.mem_get_info()
    assert (total, total - free) == (2**29, before)
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        torch.empty(2**27 + 1, device="cuda")
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        torch.ones(2**26 + 1, device="cuda") * 2  # a result counts as well
    assert torch.cuda.memory_allocated() == before


def test_a_recording_that_lacks_memory_is_tried_again_without_what_is_held(monkeypatch):
    out, tried, graph = torch.zeros(3, device="cuda"), [], recorded._graph

    def full(function):
        tried.append("graph")
        if len(tried) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return graph(function)

    monkeypatch.setattr(recorded, "_graph", full)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: tried.append("given back"))
    replay = recorded.cuda_graph(lambda: out.add_(1))
    assert tried == ["graph", "given back", "graph"]
    assert out.tolist() == [1, 1, 1]  # called once, and recorded without an effect
    replay()
    assert out.tolist() == [2, 2, 2]
