"""Token weights that depend on whether a response was right, and on how likely its tokens were.

They are functions `f(log_prob (detached), old_log_prob, advantages, mask, *, ...) -> (B, T)`, as
those of `covariance.py`, but look at one response at a time.
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
    """A3PO's weights: the unlikely tokens of right answers and the likely ones of wrong answers
    weigh more.

        A > 0: w_t = positive_low_scale  on the max(1, floor(positive_low_ratio T_i)) tokens of the
                                         response with the lowest pi_old, else 1
        A < 0: w_t = negative_high_scale on the max(1, floor(negative_high_ratio T_i)) tokens with
                                         the highest pi_old, else 1

    Source: Tang et al. 2025 (arXiv 2512.21625), A3PO; ratios 0.2 and scales 2.
    Peers: none
    Read in the authors' code (txy77/Sample-Polarity-of-RLVR at 24a37f72), which shapes advantages
    with options of these names; of the paper only the abstract and introduction were read.
    LEFT OUT: that the scales fall along training, the first A of the name. The paper's summary says
    so, but no formula was found: neither code nor scripts have one. So these scales stay, and with
    them this is the paper's token-level shaping. Right there is a reward of 1 and wrong 0, here the
    sign of A. Of equal probabilities the earlier token is chosen (there as a sort leaves it), and
    one of pi_old = 0 counts (there it does not). Scales of 1 are the parent method.
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
    """The max(1, floor(ratio T_i)) real tokens of each row with the least values, (B, T) bool."""
    real = mask > 0
    number = (ratio * real.sum(1, keepdim=True).double()).long().clamp(min=1)
    order = torch.where(real, values, torch.inf).argsort(dim=1, stable=True)
    return real & (order.argsort(1) < number)
