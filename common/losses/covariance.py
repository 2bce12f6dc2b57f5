"""Methods that look at the covariance between a token's log-probability and its advantage.

    c_t = (log_prob_t - mean log_prob) (A_t - mean A)

Their token weights compare each token with the whole mini-batch. They are separate functions,
`f(log_prob (detached), old_log_prob, advantages, mask, *, ...) -> (B, T)`, which are called once
before the mini-batch is split. The loss takes the result as `token_weights`, so the split changes
nothing. `cw_grpo_repository` is the documented exception.
"""

import torch
from torch import Tensor

from common.errors import one_of
from common.losses.clip import ppo_clip


def covariance(log_prob: Tensor, advantages: Tensor, mask: Tensor, *, mean: str) -> Tensor:
    """Return for each token the product of the deviations of log-probability and advantage from
    their means (CW-GRPO sec 2.3; Cui et al. 2025).

        c_t = (log_prob_t - mean log_prob) (A_t - mean A)

    The result is (B, T) and 0 on padding; sums are in float64. The text takes means "over
    responses", which can be read in two ways. mean="token" takes both means over all real tokens,
    as verl's Clip-Cov. mean="sequence" takes the mean log-probability over the tokens of the
    response and the mean advantage over responses, as the author's repository.
    Raises UserError for another `mean`.
    """
    one_of("method.token_weights.mean", mean, ("token", "sequence"))
    real, double = mask > 0, torch.float64
    log_p = torch.where(real, log_prob, 0)
    A = torch.where(real, advantages, 0)
    if mean == "token":
        N = real.sum()
        log_p_mean, A_mean = log_p.sum(dtype=double) / N, A.sum(dtype=double) / N
    else:
        lengths = real.sum(1, keepdim=True).clamp(min=1)
        log_p_mean = log_p.sum(1, keepdim=True, dtype=double) / lengths
        A_mean = (A.sum(1, dtype=double) / lengths[:, 0]).mean()
    c = (log_p - log_p_mean.to(log_p.dtype)) * A.sub_(A_mean.to(A.dtype))
    return torch.where(real, c, 0)


def gaussian_kernel(
    log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, mask: Tensor, *, mean: str
) -> Tensor:
    """CW-GRPO's token weights: tokens whose covariance is extreme, of either sign, weigh less.

        w_t = exp(-c_t^2 / (2 sigma^2))
        w~_t = w_t N / sum_k w_k

    Source: CW-GRPO sec 2.3.
    sigma is the population standard deviation of c over the N real tokens, so the weights have mean
    1. sigma = 0, for example if all advantages are equal, gives weights of exactly 1, the parent
    method. In the paper the sums run over the group of one prompt, in the author's code over a
    local batch, which is one such group, and here over the mini-batch. Weights carry no gradient.
    """
    real = mask > 0
    c = covariance(log_prob, advantages, mask, mean=mean).double()
    N = real.sum()
    sigma = torch.where(real, c - c.sum() / N, 0).square().sum().div(N).sqrt()
    # With equal advantages c may be rounding errors, and a kernel scaled to these is noise.
    largest = [torch.where(real, x.abs(), 0).max().double() for x in (log_prob, advantages)]
    if sigma <= 4 * torch.finfo(log_prob.dtype).eps * largest[0] * largest[1]:
        return real.to(log_prob.dtype)
    # N w / sum w is N softmax(log w), which cannot become 0 / 0.
    log_w = torch.where(real, -(c**2) / (2 * sigma**2), -torch.inf)
    return (N * torch.softmax(log_w.flatten(), 0)).view_as(log_w).to(log_prob.dtype)


def clip_cov(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    ratio: float,
    omega_low: float,
    omega_high: float,
    eps_low: float,
    eps_high: float,
    seed: int,
) -> Tensor:
    """Clip-Cov's token weights: 0 on a few tokens of high covariance, 1 on the others.

        candidates: omega_low < c_t < omega_high, and ppo_clip does not clip the token
        weight 0 on max(1, floor(ratio N)) candidates chosen at random, or on all if fewer

    Source: Cui et al. 2025 (arXiv 2505.22617).
    Peers: verl clip_cov, on each micro-batch
    Both means of c_t are over tokens. The candidates whose log-probability, hashed with `seed`, is
    smallest are chosen. This is uniform over tokens, yet needs no random state, and is the same in
    every order of the rows. verl draws from torch's global generator.
    """
    c = covariance(log_prob, advantages, mask, mean="token")
    real = mask > 0
    at = (omega_low < c).logical_and_(c < omega_high).logical_and_(real).nonzero(as_tuple=True)
    few = [x.expand_as(c)[at] for x in (log_prob, old_log_prob, advantages, mask)]
    free = ~ppo_clip(*few, eps_low=eps_low, eps_high=eps_high)[1]
    number = max(1, int(ratio * real.sum().item()))
    drawn = _hash(few[0], seed).masked_fill_(~free, torch.iinfo(torch.int64).max)
    number = min(number, int(free.sum()))
    chosen = drawn.topk(number, largest=False, sorted=False).indices
    weights = real.to(log_prob.dtype)
    weights[at[0][chosen], at[1][chosen]] = 0
    return weights


def _hash(values: Tensor, seed: int) -> Tensor:
    """Return a random-looking number for each float32; the same bits and seed give the same."""
    x = values.float().contiguous().view(torch.int32).long() + (seed % 2**31 << 32)
    for multiplier in (-0x61C8864680B583EB, -0x40A7B892E31B1A47):  # splitmix64's constants
        x = (x ^ (x >> 29)) * multiplier
    return x ^ (x >> 32)


def weighted_ppo_clip(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    token_weights: Tensor,
    eps_low: float,
    eps_high: float,
) -> tuple[Tensor, Tensor]:
    """ppo_clip with every advantage multiplied by its token's weight: the loss of CW-GRPO and of
    Clip-Cov.

        L_t = -w_t min(r_t A, clip(r_t, 1 - eps_low, 1 + eps_high) A),  w = token_weights >= 0

    Source: CW-GRPO sec 2.3, which prints no clip; Cui et al. 2025.
    Peers: verl clip_cov, for the weights of clip_cov
    Weights of 1 give ppo_clip exactly; a weight of 0 counts as clipped.
    """
    loss, clipped = ppo_clip(
        log_prob, old_log_prob, token_weights * advantages, mask, eps_low=eps_low, eps_high=eps_high
    )
    return loss, clipped | (token_weights == 0)


def cw_grpo_repository(
    log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """CW-GRPO as the author's repository computes it, not as the paper says.

        c_t = (log_prob_t - mean over the response) (A_t - mean of A over the rows given)
        w~_t = w_t (B T) / sum_k w_k,  w_t = exp(-c_t^2 / (2 (sigma + 1e-8)^2))
        L_t = -w~_t exp(log_prob_t - stop_gradient(log_prob_t)) A

    Source: WangCheng0116/CW-GRPO at 4259d837.
    Differs from sec 2.3 in four ways: B T counts padding, so the mean weight of a real token is
    B T / N > 1, a hidden rise of the learning rate; the weights are not detached, so their gradient
    flows too; they come from the rows of one call, so the loss DEPENDS ON THE MICRO-BATCH (in the
    repository it holds the 12 responses to one prompt); and sigma has 1e-8 added. old_log_prob is
    not used: the repository takes one step per rollout, so its ratio is always 1. Nothing is
    clipped. Its logits are not divided by a temperature: sampling.log_prob_temperature=1.
    backend=verl calls it on each prompt's group, whatever rows a forward pass holds
    (common/backends/verl/repository.py).
    """
    real = mask > 0
    log_p = torch.where(real, log_prob, 0)
    A = torch.where(real, advantages, 0)
    lengths = real.sum(1, keepdim=True).clamp(min=1)
    A_mean = (A.sum(1) / lengths[:, 0]).mean()
    c = torch.where(real, (log_p - log_p.sum(1, keepdim=True) / lengths) * (A - A_mean), 0)
    N = real.sum()
    variance = torch.where(real, c - c.sum() / N, 0).square().sum() / N
    # The square root of 0 has an infinite slope; all c are equal then, mostly 0.
    sigma = torch.where(variance > 0, variance, 1).sqrt() * (variance > 0) + 1e-8
    w = torch.where(real, (-(c**2) / (2 * sigma**2)).exp(), 0)
    w = w * mask.numel() / w.sum().clamp(min=torch.finfo(w.dtype).tiny)
    loss = -w * (log_p - log_p.detach()).exp() * A
    return loss, torch.zeros_like(real)
