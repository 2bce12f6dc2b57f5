import itertools
import math

import pytest
import torch
from loss_batches import AGGREGATIONS, CLIP, METHODS, batch, scalar_and_gradient
from tensors import assert_close

from common.backends.verl.repository import cw_grpo_repository_weights
from common.losses.aggregate import sequence_mean_token_mean
from common.losses.clip import ppo_clip
from common.losses.covariance import cw_grpo_repository

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
