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
