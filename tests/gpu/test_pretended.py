"""The pretended GPU itself: what it refuses, counts and repeats, as CUDA does."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("pretended")


def cuda(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device="cuda")


MIXED = {
    "the other operand": lambda a: torch.ones(3) + a,
    "a number to write to": lambda a: torch.tensor(0.0).add_(a[0]),
    "an index": lambda a: a.index_select(0, torch.tensor([1])),
    "a list": lambda a: torch.cat([a, torch.ones(1)]),
    "a product": lambda a: a @ torch.ones(3),
    "uniforms of another generator": lambda a: a.uniform_(generator=torch.Generator()),
}


@pytest.mark.parametrize("case", MIXED)
def test_two_devices_are_refused(case):
    with pytest.raises(RuntimeError, match=r"device|cuda|indices"):
        MIXED[case](cuda(1, 2, 3))


def test_what_cuda_allows_of_the_cpu_is_allowed(pretended):
    a = cuda(1, 2, 3)
    assert (a + torch.tensor(1.0)).tolist() == [2, 3, 4]
    assert a[torch.tensor([0, 2])].tolist() == [1, 3]
    a[torch.tensor([True, False, False])] = 9.0
    assert a.tolist() == [9, 2, 3]
    assert torch._foreach_mul([a], torch.tensor(2.0))[0].tolist() == [18, 4, 6]
    assert a.to("cpu").device.type == "cpu"


def test_new_memory_holds_anything():
    assert torch.empty(4, device="cuda").isnan().all()
    assert (torch.empty(4, dtype=torch.long, device="cuda") == -1).all()


def test_pinned_memory_is_known_and_copied_without_waiting(pretended):
    plain, pinned = torch.ones(3), torch.ones(3).pin_memory()
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert not plain.is_pinned()
    pinned.to("cuda", non_blocking=True)
    assert pretended.synchronisations() == {}
    plain.to("cuda", non_blocking=True)  # pageable: the host waits all the same
    pinned.to("cuda")
    assert pretended.synchronisations() == {"copy from the CPU": 2}


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


WAITING = {
    "a number": lambda a: a.sum().item(),
    "places": lambda a: a.nonzero(),
    "all": lambda a: torch.cuda.synchronize(),
}


@pytest.mark.parametrize("case", WAITING)
def test_nothing_waits_while_a_graph_is_recorded(case):
    a = cuda(1, 2, 3)
    with pytest.raises(RuntimeError, match="capturing"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        WAITING[case](a)
    assert a.sum().item() == 6  # and afterwards it may again


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


def test_generators_are_of_their_device():
    one = torch.Generator("cuda").manual_seed(3)
    assert one.device.type == "cuda"
    state, first = one.get_state(), torch.rand(3, device="cuda", generator=one)
    assert torch.equal(torch.rand(3, device="cuda", generator=one.set_state(state)), first)
    with pytest.raises(RuntimeError, match=r"device|generator"):
        torch.rand(3, generator=one)
    torch.manual_seed(5)
    here, there = torch.rand(3), torch.rand(3, device="cuda")
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3, device="cuda"), there)  # a stream of its own: not moved
    assert torch.equal(torch.rand(3), here)  # by what the CPU draws, nor the other way round
    state = torch.cuda.get_rng_state()
    first = torch.randn(2, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.randn(2, device="cuda"), first)
