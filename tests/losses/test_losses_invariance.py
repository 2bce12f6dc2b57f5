import itertools
import math
from functools import partial

import pytest
import torch
from loss_batches import AGGREGATIONS, CLIP, METHODS, batch, real_tokens, scalar_and_gradient
from tensors import assert_close

from common.backends.verl.repository import cw_grpo_repository_weights
from common.losses.aggregate import sequence_mean_token_mean
from common.losses.clip import cispo, ppo_clip
from common.losses.covariance import cw_grpo_repository
from common.losses.sequence import gspo


def with_weights(name, log_prob, old, advantages, mask):
    """The method's loss as a function of the four tensors, its weights made from these."""
    weigh, loss = METHODS[name]
    token_weights = weigh(log_prob.detach(), old, advantages, mask)
    return loss if token_weights is None else partial(loss, token_weights=token_weights)


# ---- gradients


@pytest.mark.parametrize("name", ["ppo_clip", "dual_clip", "cw_grpo", "clip_cov"])
def test_gradients_by_finite_differences(name):
    # Away from the kinks at r = 0.8, 1, 1.28 and 1.5.
    log_prob, old, A, mask = batch(1)
    shift = torch.empty_like(old).uniform_(0.03, 0.5) * torch.randn_like(old).sign()
    log_prob = (old + shift).requires_grad_()
    for edge in (0.8, 1.28, 1.5):
        assert ((log_prob - old).exp() - edge).abs().min() > 1e-4
    loss = with_weights(name, log_prob, old, A, mask)
    assert torch.autograd.gradcheck(lambda x: loss(x, old, A, mask)[0] * mask, log_prob)


def test_gradients_of_constant_weights_by_finite_differences():
    """CISPO and GSPO-token have weights that are constants by definition, and so has the ratio of
    the repository reading: frozen, then differentiated."""
    log_prob, old, A, mask = batch(1)
    step = 1e-6
    x = log_prob.clone().requires_grad_()
    out, _ = cispo(x, old, A, mask, **CLIP)
    weight = (log_prob - old).exp().clamp(0.8, 1.28)
    up, down = (-(weight * A * (log_prob + sign * step)) for sign in (1, -1))
    assert_close(
        torch.autograd.grad((out * mask).sum(), x)[0], (up - down) / (2 * step) * mask, 1e-8
    )

    out, flag = gspo(x, old, A, mask, **CLIP)
    s = (((log_prob - old) * mask).sum(1) / mask.sum(1)).exp()[:, None]
    up, down = (-s * math.exp(sign * step) * A for sign in (1, -1))
    expected = torch.where(flag, 0, (up - down) / (2 * step)) * mask
    assert_close(torch.autograd.grad((out * mask).sum(), x)[0], expected, 1e-8)

    def frozen(values):  # the loss without its straight-through ratio, which is 1 in value
        return cw_grpo_repository(values.detach(), old, A, mask)[0].sum().item()

    out, _ = cw_grpo_repository(x, old, A, mask)
    gradient = torch.autograd.grad(out.sum(), x)[0]
    for i, t in real_tokens(mask)[::5]:
        up, down = log_prob.clone(), log_prob.clone()
        up[i, t] += step
        down[i, t] -= step
        through_weights = (frozen(up) - frozen(down)) / (2 * step)
        assert_close(gradient[i, t], through_weights + out[i, t].item(), 1e-6)


# ---- what must not change anything


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30])
@pytest.mark.parametrize("name", METHODS)
def test_garbage_on_padding_changes_neither_loss_nor_gradient(name, garbage):
    log_prob, old, A, mask = batch(4)
    A = A.expand_as(mask)
    clean = scalar_and_gradient(name, log_prob, old, A, mask)
    for dirty in itertools.product([False, True], repeat=3):
        parts = [
            torch.where((mask > 0) | ~torch.tensor(soil), x, garbage)
            for x, soil in zip((log_prob, old, A), dirty, strict=True)
        ]
        total, gradient = scalar_and_gradient(name, *parts, mask)
        assert total == clean[0]
        assert torch.equal(gradient, clean[1])
        assert (gradient[mask == 0] == 0).all()


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_rows_changes_nothing(name):
    log_prob, old, A, mask = batch(6)
    order = torch.randperm(len(mask))
    total, gradient = scalar_and_gradient(name, log_prob, old, A, mask)
    shuffled = scalar_and_gradient(name, *(x[order] for x in (log_prob, old, A, mask)))
    assert_close(torch.tensor(shuffled[0]), total, 1e-6)
    assert_close(shuffled[1], gradient[order], 1e-9)


@pytest.mark.parametrize("aggregate", AGGREGATIONS)
@pytest.mark.parametrize("micro", [1, 5])
@pytest.mark.parametrize("name", METHODS)
def test_the_split_into_micro_batches_changes_nothing(name, micro, aggregate):
    data = [x.float() for x in batch(9)]
    total, gradient = scalar_and_gradient(name, *data, aggregate)
    split_total, split_gradient = scalar_and_gradient(name, *data, aggregate, micro)
    difference = max(abs(split_total - total), (split_gradient - gradient).abs().max().item())
    if name == "cw_grpo_repository":  # as documented: its weights come from the rows of one call
        assert difference > 1e-3
    else:
        assert difference < 1e-6


def test_the_repository_reading_as_token_weights_of_each_group():
    """ppo_clip with them has the gradient of the loss on each group by itself, cut to its longest
    response; a group without a gradient has none."""
    size = 4
    log_prob, _, A, mask = batch(9, B=3 * size)
    A = A - A.view(-1, size).mean(1).repeat_interleave(size)[:, None]
    A[size : 2 * size] = 0
    weights = cw_grpo_repository_weights(log_prob, log_prob, A, mask, group_size=size)
    x = log_prob.clone().requires_grad_()
    ours, _ = ppo_clip(x, log_prob, weights * A, mask, **CLIP)
    (ours * sequence_mean_token_mean(mask)).sum().backward()
    y = log_prob.clone().requires_grad_()
    for rows in torch.arange(3 * size).split(size):
        width = int(mask[rows].sum(1).max())
        cut = (values[rows, :width] for values in (y, log_prob, A.expand_as(mask), mask))
        loss, _ = cw_grpo_repository(*cut)
        (loss * sequence_mean_token_mean(mask[rows, :width]) / 3).sum().backward()
    assert_close(x.grad, y.grad, 1e-12)
    assert y.grad.abs().max() > 1e-3
    assert x.grad[size : 2 * size].abs().max() == 0
    assert not weights.requires_grad
