"""oneDNN products equal torch's own, forwards and backwards, for the layouts the model uses."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from common.linear import linear, speed_up


@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5), (2, 1, 5)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_equals_torch_with_gradients(shape, bias, transposed):
    torch.manual_seed(0)
    x, weight = torch.randn(shape), torch.randn(6, 5)
    if transposed:  # not contiguous, as the attention output and a tied head may be
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
        weight = torch.randn(5, 6).t()
    b = torch.randn(6) if bias else None
    upstream = torch.randn(*shape[:-1], 6)
    results = []
    for function in (F.linear, linear):
        inputs = [t.detach().clone().requires_grad_() for t in (x, weight, b) if t is not None]
        out = function(*inputs)
        results.append([out, *torch.autograd.grad(out, inputs, upstream)])
    assert len(results[0]) == 3 + bias
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_only_what_is_needed_gets_a_gradient():
    x, weight = torch.randn(2, 3), torch.randn(4, 3, requires_grad=True)
    linear(x, weight).sum().backward()
    assert x.grad is None
    torch.testing.assert_close(weight.grad, x.sum(0).expand(4, 3))


def test_other_precisions_take_torchs_own_path():
    x, weight = torch.randn(2, 3).double(), torch.randn(4, 3).double()
    assert torch.equal(linear(x, weight), F.linear(x, weight))


def test_speed_up_keeps_parameters_and_output():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x, names = torch.randn(5, 3), list(model.state_dict())
    before = model(x)
    assert speed_up(model) is model
    assert list(model.state_dict()) == names
    assert type(model[0]) is not nn.Linear
    torch.testing.assert_close(model(x), before)
