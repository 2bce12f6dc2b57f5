from itertools import accumulate

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from common.models import logits as module
from common.models.logits import log_prob_and_entropy


def plain(logits, ids, temperature):
    log_p = torch.log_softmax(logits / temperature, -1)
    log_prob = log_p.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    return log_prob, -(log_p.exp() * log_p).sum(-1)


def value_and_gradient(function, logits, ids, temperature, weights):
    x = logits.clone().requires_grad_()
    out = function(x, ids, temperature)
    pairs = [(w, o) for w, o in zip(weights, out, strict=True) if w is not None]
    sum((w * o).sum() for w, o in pairs).backward()
    return [o.detach() for o in out], x.grad


@pytest.fixture
def data():
    torch.manual_seed(0)
    logits = 3 * torch.randn(4, 5, 37)
    ids = torch.randint(37, (4, 5))
    return logits, ids, torch.randn(4, 5), torch.randn(4, 5)


def test_by_hand():
    # softmax(log 3, 0) = 3/4, 1/4. At temperature 1/2 the odds are squared: 9/10, 1/10.
    logits = torch.tensor([[3.0, 1.0]], dtype=torch.float64).log()
    for temperature, p in ((1.0, 0.75), (0.5, 0.9)):
        p = torch.tensor([p, 1 - p], dtype=torch.float64)
        log_prob, entropy = log_prob_and_entropy(logits, torch.tensor([1]), temperature)
        torch.testing.assert_close(log_prob, p[1:].log())
        torch.testing.assert_close(entropy, -(p * p.log()).sum()[None])


@pytest.mark.parametrize("chunk", [1, 37 * 3, 37 * 7, 2**22])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 2.0])
@pytest.mark.parametrize("used", [(True, True), (True, False), (False, True)])
def test_equal_to_the_plain_formula(data, monkeypatch, chunk, temperature, used):
    monkeypatch.setattr(module, "CHUNK", chunk)
    logits, ids, *weights = data
    weights = [w if use else None for w, use in zip(weights, used, strict=True)]
    ours = value_and_gradient(log_prob_and_entropy, logits, ids, temperature, weights)
    theirs = value_and_gradient(plain, logits, ids, temperature, weights)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_bfloat16_is_computed_in_float32(data):
    logits, ids, *weights = data
    low = logits.bfloat16()
    values, gradient = value_and_gradient(log_prob_and_entropy, low, ids, 0.8, weights)
    exact, exact_gradient = value_and_gradient(plain, low.float(), ids, 0.8, weights)
    torch.testing.assert_close(values, exact, rtol=1e-6, atol=1e-6)
    assert gradient.dtype == torch.bfloat16
    torch.testing.assert_close(gradient, exact_gradient.bfloat16())


def peak_memory(function) -> float:
    """MiB of tensors at the peak, the logits included, from PyTorch's own record of allocations:
    the process's resident size differs by a third from one run to the next."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        logits = torch.randn(256, 151_936, requires_grad=True)
        out = function(logits, torch.zeros(256, dtype=torch.long), 1.0)
        sum(values.sum() for values in out).backward()
    events = record.profiler.kineto_results.events()
    sizes = accumulate(event.nbytes() for event in events if event.name() == "[memory]")
    return max(sizes) / 2**20


def test_at_a_large_vocabulary_it_needs_at_most_half_of_the_memory():
    ours, theirs = peak_memory(log_prob_and_entropy), peak_memory(plain)
    one = 256 * 151_936 * 4 / 2**20  # MiB of the logits; both counts include them
    assert theirs > 3 * one  # else nothing was measured
    assert ours <= theirs / 2
