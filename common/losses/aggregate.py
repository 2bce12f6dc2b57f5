"""From per-token losses to one number: each function turns a mask into token weights, `(B, T) ->
(B, T)`.

The scalar is (weights * loss).sum(). The weights are made once from the mask of the whole
mini-batch, so the split into micro-batches cannot change loss or gradient.
"""

import torch


def token_mean(mask: torch.Tensor) -> torch.Tensor:
    """Every token of the mini-batch counts alike: 1 / sum_i T_i (DAPO; F-GRPO App. H.2)."""
    return mask / mask.sum()


def sequence_mean_token_mean(mask: torch.Tensor) -> torch.Tensor:
    """Every response counts alike: 1 / (B T_i) (the 1/T_i of GRPO's formula, F-GRPO sec 2.2)."""
    return mask / mask.sum(1, keepdim=True) / mask.shape[0]
