"""From per-token losses to one number: each function turns a mask into token weights, `(B, T) ->
(B, T)`.

The scalar is (weights * loss).sum(). The weights are made once from the mask of the whole
mini-batch, so the split into micro-batches cannot change loss or gradient. A response without
tokens counts as a response and adds nothing.
"""

import torch

from common.errors import UserError


def token_mean(mask: torch.Tensor) -> torch.Tensor:
    """Every token of the mini-batch counts alike: 1 / sum_i T_i (DAPO; F-GRPO App. H.2)."""
    return mask / mask.sum()


def sequence_mean_token_mean(mask: torch.Tensor) -> torch.Tensor:
    """Every response counts alike: 1 / (B T_i) (the 1/T_i of GRPO's formula, F-GRPO sec 2.2)."""
    return mask / mask.sum(1, keepdim=True).clamp(min=1) / mask.shape[0]


def token_sum(mask: torch.Tensor, *, max_tokens: int) -> torch.Tensor:
    """Every token weighs the same constant, whatever the lengths: 1 / (B max_tokens).

    FADE's division by T_max (sec 11.1) and Dr. GRPO's constant (Liu et al. 2025) are this
    one formula. Raises UserError for max_tokens < 1.
    """
    if max_tokens < 1:
        raise UserError(f"method.aggregation.max_tokens={max_tokens}: must be at least 1")
    return mask / (mask.shape[0] * max_tokens)
