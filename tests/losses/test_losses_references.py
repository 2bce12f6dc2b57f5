import math
import statistics
from functools import partial

import pytest
import torch
from loss_batches import CLIP, batch, real_tokens, scalar_and_gradient
from refuses import refuses
from tensors import assert_close

from common.losses.aggregate import sequence_mean_token_mean
from common.losses.clip import ppo_clip
from common.losses.covariance import (
    clip_cov,
    covariance,
    cw_grpo_repository,
    gaussian_kernel,
    weighted_ppo_clip,
)
from common.losses.sequence import gspo

# ---- slow references


def slow_covariance(log_prob, A, mask, mean):
    tokens = real_tokens(mask)
    out = {}
    for i, t in tokens:
        if mean == "token":
            log_p_mean = statistics.fmean(log_prob[at].item() for at in tokens)
            A_mean = statistics.fmean(A[j, 0].item() for j, _ in tokens)
        else:
            log_p_mean = statistics.fmean(log_prob[at].item() for at in tokens if at[0] == i)
            A_mean = statistics.fmean(A[:, 0].tolist())
        out[i, t] = (log_prob[i, t].item() - log_p_mean) * (A[i, 0].item() - A_mean)
    return out


def table(values: dict, like: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(like)
    for at, value in values.items():
        out[at] = value
    return out


@pytest.mark.parametrize("mean", ["token", "sequence"])
@pytest.mark.parametrize("seed", range(4))
def test_gaussian_kernel_against_a_slow_reference(mean, seed):
    log_prob, old, A, mask = batch(seed)
    c = slow_covariance(log_prob, A, mask, mean)
    assert_close(covariance(log_prob, A, mask, mean=mean), table(c, mask), 1e-9)
    sigma = statistics.pstdev(c.values())
    w = {at: math.exp(-(value**2) / (2 * sigma**2)) for at, value in c.items()}
    expected = {at: value * len(w) / sum(w.values()) for at, value in w.items()}
    weights = gaussian_kernel(log_prob, old, A, mask, mean=mean)
    assert_close(weights, table(expected, mask), 1e-9)
    assert_close(weights.sum() / mask.sum(), 1.0)
    with refuses("method.token_weights.mean", "group"):
        gaussian_kernel(log_prob, old, A, mask, mean="group")


@pytest.mark.parametrize("seed", range(4))
def test_clip_cov_against_a_slow_reference(seed):
    log_prob, old, A, mask = batch(seed, B=40, T=12)
    c = slow_covariance(log_prob, A, mask, "token")
    candidates = set()
    for (i, t), value in c.items():
        r, a = math.exp(log_prob[i, t] - old[i, t]), A[i, 0].item()
        clipped = (a > 0 and r > 1.28) or (a < 0 and r < 0.8)
        if 0.5 < value < 2.0 and not clipped:
            candidates.add((i, t))
    number = max(1, math.floor(0.04 * mask.sum().item()))
    assert 2 < number < len(candidates)
    choose = partial(clip_cov, ratio=0.04, omega_low=0.5, omega_high=2.0, **CLIP)
    picks = []
    for pick in range(200):
        weights = choose(log_prob, old, A, mask, seed=pick)
        assert set(weights.unique().tolist()) == {0.0, 1.0}
        zeros = {tuple(at) for at in ((weights == 0) & (mask > 0)).nonzero().tolist()}
        assert len(zeros) == number
        assert zeros <= candidates
        picks.append(zeros)
    # Every candidate is chosen about equally often: 200 draws of probability number / candidates.
    share = number / len(candidates)
    spread = math.sqrt(200 * share * (1 - share))
    counts = [sum(at in zeros for zeros in picks) for at in candidates]
    assert max(abs(count - 200 * share) for count in counts) < 5 * spread
    # All candidates if there are fewer than wanted; none if no token is in the range.
    weights = choose(log_prob, old, A, mask, seed=0, ratio=1.0)
    assert ((weights == 0) & (mask > 0)).sum() == len(candidates)
    nothing = choose(log_prob, old, A, mask, seed=0, omega_low=1e6, omega_high=2e6)
    assert torch.equal(nothing, mask)


@pytest.mark.parametrize("seed", range(4))
def test_gspo_against_a_slow_reference(seed):
    """Value, and with the sequence mean the gradient of GSPO's own objective on whole responses."""
    log_prob, old, A, mask = batch(seed, spread=0.8)
    x = log_prob.clone().requires_grad_()
    objective, values = 0.0, {}
    for i, length in enumerate(mask.sum(1).int().tolist()):
        s = ((x[i, :length] - old[i, :length]).sum() / length).exp()
        loss = -torch.minimum(s * A[i, 0], s.clamp(0.8, 1.28) * A[i, 0])
        values |= {(i, t): loss.item() for t in range(length)}
        objective = objective + loss / len(mask)
    out, clipped = gspo(log_prob, old, A, mask, **CLIP)
    assert_close(out * mask, table(values, mask))
    assert 0 < clipped.sum() < clipped.numel()
    total, gradient = scalar_and_gradient("gspo", log_prob, old, A, mask, sequence_mean_token_mean)
    assert_close(torch.tensor(total), objective.item(), 1e-6)
    assert_close(gradient, torch.autograd.grad(objective, x)[0])


def test_the_repository_reading_against_a_slow_reference():
    log_prob, old, A, mask = batch(5, B=6)
    x = log_prob.clone().requires_grad_()
    lengths = mask.sum(1).int().tolist()
    c = [(x[i, :n] - x[i, :n].mean()) * (A[i, 0] - A[:, 0].mean()) for i, n in enumerate(lengths)]
    sigma = torch.cat(c).std(correction=0) + 1e-8
    w = [(-(one**2) / (2 * sigma**2)).exp() for one in c]
    scale = mask.numel() / torch.cat(w).sum()
    expected = sum((-w[i] * scale * A[i, 0]).mean() for i in range(len(w))) / len(w)
    ratio = sum((-w[i].detach() * A[i, 0] * x[i, :n]).mean() for i, n in enumerate(lengths))
    ratio = ratio * scale.detach() / len(w)
    total, gradient = scalar_and_gradient(
        "cw_grpo_repository", log_prob, old, A, mask, sequence_mean_token_mean
    )
    assert_close(torch.tensor(total), expected.item(), 1e-6)
    assert_close(gradient, torch.autograd.grad(expected + ratio, x)[0], 1e-9)
    # Its mean weight is the share of padding turned upside down, ours is 1.
    paper = gaussian_kernel(log_prob, old, A, mask, mean="sequence")
    loss, _ = cw_grpo_repository(log_prob, old, A, mask)
    weights = torch.where(mask > 0, loss / -A, 0)
    assert_close(weights.sum() / paper.sum(), mask.numel() / mask.sum(), 1e-9)
    assert_close(weights * mask.sum() / mask.numel(), paper, 1e-6)


# ---- limits


@pytest.mark.parametrize("mean", ["token", "sequence"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -1 / 3, 1e6])
def test_equal_covariances_give_weights_of_exactly_one(mean, dtype, value):
    log_prob, old, _, mask = (x.to(dtype) for x in batch(7, B=50))
    A = torch.full((50, 1), value, dtype=dtype)
    assert torch.equal(gaussian_kernel(log_prob, old, A, mask, mean=mean), mask)
    # And the loss is then the parent's, bit for bit.
    parent, flag = ppo_clip(log_prob, old, A, mask, **CLIP)
    loss, weighted_flag = weighted_ppo_clip(log_prob, old, A, mask, token_weights=mask, **CLIP)
    assert torch.equal(loss[mask > 0], parent[mask > 0])
    assert torch.equal(weighted_flag[mask > 0], flag[mask > 0])
