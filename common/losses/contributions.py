"""How few tokens hold most of the covariances (CW-GRPO Fig. 3)."""

import torch

from common.errors import require
from common.losses.covariance import covariance

# of all tokens: those of CW-GRPO's Table 1 below 1, and some between; ours
SHARES = (0.0001, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
PREFIX = "covariance_top_"  # then the share: columns of metrics.jsonl
SIDES = {"positive": 1, "negative": -1}
PERCENTILES = (0.0001, 0.01, 0.2, 0.4, 1.0)  # CW-GRPO's Table 1, of each side's tokens


def cumulative_contribution(c: torch.Tensor, shares: list[float]) -> list[float]:
    """Fig. 3: the part of sum |c| that the `shares` (of 1) of tokens with the largest |c| hold.

    A share counts at least one token. Raises UserError where all c are 0: nothing contributes.
    """
    sizes = c.abs().double().sort(descending=True).values
    total = sizes.sum()
    require(total > 0, "c", "all 0", "needs tokens of groups with different rewards")
    held = sizes.cumsum(0) / total
    return [held[tokens_of(share, len(c)) - 1].item() for share in shares]


def tokens_of(share: float, tokens: int) -> int:
    """How many of `tokens` a share is, at least one. Raises UserError for one outside (0, 1]."""
    require(0 < share <= 1, "share", share, "must be in (0, 1]")
    return min(tokens, max(1, round(share * tokens)))


def logged(
    log_prob: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor
) -> dict[str, float]:
    """What a step with `covariances=true` logs: for each of SHARES the part of sum |c| that this
    share of the step's tokens holds, both of 1.

    log_prob (B, T) of the policy that sampled; advantages (B, 1) or (B, T) before token weights; c
    as in `covariance`, means over all real tokens. Nothing where all c are 0, so that such a step
    is missing and not 0.
    """
    c = covariance(log_prob, advantages, mask, mean="token")[mask > 0]
    if not (c != 0).any():
        return {}
    held = cumulative_contribution(c, list(SHARES))
    row = {f"{PREFIX}{share:g}": value for share, value in zip(SHARES, held, strict=True)}
    return row | percentiles(c)


def percentiles(c: torch.Tensor) -> dict[str, float]:
    """Table 1 of the step: by side and share the covariance that this share of the side's tokens
    reaches (`_at_`), and their mean (`_mean_`), since the paper does not say which it prints
    (INC032). A side without tokens is left out."""
    found = {}
    for side, sign in SIDES.items():
        sizes = (sign * c[sign * c > 0]).double().sort(descending=True).values
        for share in PERCENTILES if len(sizes) else ():
            top = sizes[: tokens_of(share, len(sizes))]
            found[f"covariance_{side}_at_{share:g}"] = sign * top[-1].item()
            found[f"covariance_{side}_mean_{share:g}"] = sign * top.mean().item()
    return found
