"""Token weights that depend on whether a response was right, and on how likely its tokens were.

They are functions `f(log_prob (detached), old_log_prob, advantages, mask, *, ...) -> (B, T)`, like
the token weights of `covariance.py`, but look at one response at a time.
"""

import torch

from common.errors import require


def a3po(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    positive_low_ratio: float,
    positive_low_scale: float,
    negative_high_ratio: float,
    negative_high_scale: float,
) -> torch.Tensor:
    """A3PO's token weights: the unlikely tokens of right answers and the likely tokens of wrong
    answers weigh more.

        A > 0: w_t = positive_low_scale  on the max(1, floor(positive_low_ratio T_i)) tokens of the
                                         response with the lowest pi_old, else 1
        A < 0: w_t = negative_high_scale on the max(1, floor(negative_high_ratio T_i)) tokens with
                                         the highest pi_old, else 1

    Source: Tang et al. 2025 (arXiv 2512.21625), A3PO; ratios 0.2 and scales 2.
    Peers: none
    The method was read in the authors' code (txy77/Sample-Polarity-of-RLVR at 24a37f72), which
    shapes advantages with options of these names. Only the paper's abstract and introduction were
    read. LEFT OUT: the decay of the scales during training, the first A of the name. The paper's
    summary mentions it, but no formula was found: neither code nor scripts have one. The scales are
    therefore constant, and with them this is the paper's token-level shaping. In the code a reward
    of 1 is right and 0 is wrong; here the sign of A decides. Among equal probabilities the earlier
    token is chosen (in the code it depends on the sort), and a token with pi_old = 0 counts (in the
    code it does not). Scales of 1 are the parent method.
    Raises UserError for a ratio outside (0, 1] or a negative scale.
    """
    ratios = {"positive_low_ratio": positive_low_ratio, "negative_high_ratio": negative_high_ratio}
    scales = {"positive_low_scale": positive_low_scale, "negative_high_scale": negative_high_scale}
    for name, ratio in ratios.items():
        require(0 < ratio <= 1, f"method.token_weights.{name}", ratio, "must be in (0, 1]")
    for name, scale in scales.items():
        require(scale >= 0, f"method.token_weights.{name}", scale, "must be at least 0")
    low = least(old_log_prob, mask, positive_low_ratio) & (advantages > 0)
    high = least(-old_log_prob, mask, negative_high_ratio) & (advantages < 0)
    weights = (mask > 0).to(old_log_prob.dtype)
    weights = torch.where(low, positive_low_scale, weights)
    return torch.where(high, negative_high_scale, weights)


def least(values: torch.Tensor, mask: torch.Tensor, ratio: float) -> torch.Tensor:
    """Return which real tokens have the max(1, floor(ratio T_i)) least values of their row, (B, T)
    bool."""
    real = mask > 0
    number = (ratio * real.sum(1, keepdim=True).double()).long().clamp(min=1)
    order = torch.where(real, values, torch.inf).argsort(dim=1, stable=True)
    return real & (order.argsort(1) < number)
