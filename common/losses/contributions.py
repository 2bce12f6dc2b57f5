"""How few tokens hold most of the covariance (CW-GRPO Fig. 3)."""

from collections.abc import Sequence

from torch import Tensor

from common.errors import require
from common.losses.covariance import covariance

# Shares of all tokens: the ones below 1 in CW-GRPO's Table 1, and some between (our choice)
SHARES = (0.0001, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
PREFIX = "covariance_top_"  # followed by the share: columns of metrics.jsonl
SIDES = {"positive": 1, "negative": -1}
PERCENTILES = (0.0001, 0.01, 0.2, 0.4, 1.0)  # of each side's tokens, CW-GRPO's Table 1


def cumulative_contribution(c: Tensor, shares: list[float]) -> list[float]:
    """Return Fig. 3: for each of `shares` (in (0, 1]) the part of sum |c| that this share of the
    tokens, the ones with the largest |c|, holds.

    A share counts at least one token. Raises UserError if all c are 0: then nothing contributes.
    """
    sizes = c.abs().double().sort(descending=True).values
    total = sizes.sum()
    require(total > 0, "c", "all 0", "needs tokens of groups with different rewards")
    held = sizes.cumsum(0) / total
    return [held[tokens_of(share, len(c)) - 1].item() for share in shares]


def tokens_of(share: float, tokens: int) -> int:
    """Return how many of `tokens` a share is, at least 1. Raises UserError outside (0, 1]."""
    require(0 < share <= 1, "share", share, "must be in (0, 1]")
    return min(tokens, max(1, round(share * tokens)))


def logged(log_prob: Tensor, advantages: Tensor, mask: Tensor) -> dict[str, float]:
    """Return what a step with `covariances=true` logs: for each of SHARES the fraction of sum |c|
    that this share of the step's tokens holds, and the `percentiles`.

    log_prob (B, T) is under the policy that sampled; advantages (B, 1) or (B, T) are without token
    weights; c is as in `covariance`, with means over all real tokens. The result is empty if all c
    are 0, so that such a step is missing from the curve instead of 0.
    """
    c = covariance(log_prob, advantages, mask, mean="token")[mask > 0]
    if not (c != 0).any():
        return {}
    held = cumulative_contribution(c, list(SHARES))
    row = {f"{PREFIX}{share:g}": value for share, value in zip(SHARES, held, strict=True)}
    for side, share, at, mean in percentiles(c, PERCENTILES):
        row[f"covariance_{side}_at_{share:g}"] = at
        row[f"covariance_{side}_mean_{share:g}"] = mean
    return row


def percentiles(c: Tensor, shares: Sequence[float]) -> list[tuple[str, float, float, float]]:
    """Return Table 1 as (side, share, the covariance that this share of the side's tokens reaches,
    the mean over these tokens), since the paper does not say which of the two it prints (INC032).
    At 100 % the first is the smallest. A side without tokens is left out."""
    found = []
    for side, sign in SIDES.items():
        sizes = (sign * c[sign * c > 0]).double().sort(descending=True).values
        for share in shares if len(sizes) else ():
            top = sizes[: tokens_of(share, len(sizes))]
            found.append((side, share, sign * top[-1].item(), sign * top.mean().item()))
    return found
