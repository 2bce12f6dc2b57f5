"""Random mini-batches and the losses that tests run on them."""

from functools import partial

import torch

from common.losses.aggregate import sequence_mean_token_mean, token_mean, token_sum
from common.losses.clip import cispo, dual_clip, ppo_clip
from common.losses.covariance import (
    clip_cov,
    cw_grpo_repository,
    gaussian_kernel,
    weighted_ppo_clip,
)
from common.losses.sequence import gspo


def batch(seed: int = 0, B: int = 12, T: int = 9, spread: float = 0.3):
    """log_prob, old_log_prob, advantages (B, 1), mask: ragged rows of 1 to T tokens."""
    torch.manual_seed(seed)
    old = -torch.rand(B, T, dtype=torch.float64) * 4
    log_prob = old + spread * torch.randn(B, T, dtype=torch.float64)
    mask = (torch.arange(T) < torch.randint(1, T + 1, (B, 1))).double()
    return log_prob, old, torch.randn(B, 1, dtype=torch.float64), mask


CLIP = dict(eps_low=0.2, eps_high=0.28)


def no_weights(log_prob, old, advantages, mask):
    return None


# name -> (token weights of the whole mini-batch, the loss that takes them)
METHODS = {
    "ppo_clip": (no_weights, partial(ppo_clip, **CLIP)),
    "dual_clip": (no_weights, partial(dual_clip, clip_ratio_c=1.5, **CLIP)),
    "cispo": (no_weights, partial(cispo, **CLIP)),
    "gspo": (no_weights, partial(gspo, **CLIP)),
    "cw_grpo": (partial(gaussian_kernel, mean="token"), partial(weighted_ppo_clip, **CLIP)),
    "cw_grpo, sequence": (
        partial(gaussian_kernel, mean="sequence"),
        partial(weighted_ppo_clip, **CLIP),
    ),
    "clip_cov": (
        partial(clip_cov, ratio=0.1, omega_low=0.5, omega_high=3.0, seed=0, **CLIP),
        partial(weighted_ppo_clip, **CLIP),
    ),
    "cw_grpo_repository": (no_weights, cw_grpo_repository),
}

AGGREGATIONS = [token_mean, sequence_mean_token_mean, partial(token_sum, max_tokens=11)]


def scalar_and_gradient(name, log_prob, old, advantages, mask, aggregate=token_mean, micro=None):
    """As the loop does it: weights of the whole mini-batch, then micro-batch by micro-batch."""
    weigh, loss = METHODS[name]
    token_weights = weigh(log_prob, old, advantages, mask)
    weights, x = aggregate(mask), log_prob.clone().requires_grad_()
    total = 0.0
    for start in range(0, len(mask), micro or len(mask)):
        part = slice(start, start + (micro or len(mask)))
        more = {} if token_weights is None else {"token_weights": token_weights[part]}
        per_token, _ = loss(x[part], old[part], advantages[part], mask[part], **more)
        part_loss = torch.where(mask[part] > 0, per_token * weights[part], 0.0).sum()
        part_loss.backward()
        total += part_loss.item()
    return total, x.grad


def real_tokens(mask):
    return [(i, t) for i, row in enumerate(mask.tolist()) for t, m in enumerate(row) if m]
