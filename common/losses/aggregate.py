"""From per-token losses to one number: each function turns a mask into token weights,
`(B, T) -> (B, T)`.

The scalar is (weights * loss).sum(). The weights are made once from the mask of the whole
mini-batch, so the split into micro-batches cannot change loss or gradient. A response without
tokens counts as a response and adds nothing.
"""

from torch import Tensor

from common.errors import require


def token_mean(mask: Tensor) -> Tensor:
    """Token mean: all tokens of the mini-batch have the same weight; without any token all are 0.

        w_{i,t} = 1 / sum_j T_j

    Source: DAPO (Yu et al. 2025); F-GRPO App. H.2.
    Peers: verl token-mean, TRL GRPOTrainer with loss_type="dapo"
    """
    return mask / mask.sum().clamp(min=1)


def sequence_mean_token_mean(mask: Tensor) -> Tensor:
    """Mean over responses of their token means: all responses have the same weight.

        w_{i,t} = 1 / (B T_i)

    Source: the 1/T_i of GRPO's formula, F-GRPO sec 2.2; Shao et al. 2024.
    Peers: verl seq-mean-token-mean, TRL GRPOTrainer with loss_type="grpo"
    """
    return mask / mask.sum(1, keepdim=True).clamp(min=1) / mask.shape[0]


def token_sum(mask: Tensor, *, max_tokens: int) -> Tensor:
    """Token sum over a constant: every token has the same weight, whatever the lengths.

        w_{i,t} = 1 / (B max_tokens)

    Source: FADE sec 11.1 (division by T_max); Dr. GRPO's constant (Liu et al. 2025).
    Peers: verl seq-mean-token-sum-norm, TRL GRPOTrainer with loss_type="dr_grpo"
    Raises UserError for max_tokens < 1.
    """
    require(max_tokens >= 1, "method.aggregation.max_tokens", max_tokens, "must be at least 1")
    return mask / (mask.shape[0] * max_tokens)
