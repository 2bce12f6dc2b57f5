"""Advantages that weigh successes against failures: `(P, G) rewards -> (P, G) weights`.

The lines "m_S =" are explained in `group.py`.
"""

import torch
from torch import Tensor

from common.advantages.group import grpo
from common.advantages.parts import centred, require, success, times


def asym_grpo(rewards: Tensor, *, delta: float) -> Tensor:
    """FADE's AsymGRPO: mean GRPO with the failures divided by delta.

        A_i = R_i - mean_j R_j if that is >= 0, else (R_i - mean_j R_j) / delta

    Source: FADE sec 4.1, sec 8.2 item 3.
    m_S = p*q, m_F = p*q/delta
    delta = 1 is mean GRPO. The AsymGRPO of Gu et al. (arXiv 2604.04894) is another method.
    Raises UserError for delta <= 0 or groups of one.
    """
    require(delta > 0, "delta", delta, "must be > 0")
    advantage = centred(rewards, "asym_grpo")
    return torch.where(advantage < 0, advantage / delta, advantage)


def fade(rewards: Tensor, *, correct: Tensor, alpha: float, delta: float) -> Tensor:
    """FADE: Power alpha and AsymGRPO at once, with alpha and delta set by a controller.

        A_i = (1 - p)^(alpha - 1) (r_i - p) if r_i >= p, else (1 - p)^(alpha - 1) (r_i - p) / delta

    Source: FADE Eq. 11, Algorithm 2.
    m_S = p*q^alpha, m_F = p*q^alpha/delta
    Algorithm 2 writes p as a mean over the batch, but the masses of sec 10 require the prompt's
    rate. As printed, there is no C of Eq. 27.
    Raises UserError for alpha < 0, delta <= 0, groups of one, or graded rewards.
    """
    require(alpha >= 0, "alpha", alpha, "must be >= 0")
    r = success(rewards, "fade", correct=correct)
    balance = asym_grpo(r, delta=delta)
    return times((1 - r.mean(1, keepdim=True)) ** (alpha - 1), balance)


def negative_only(rewards: Tensor, *, unbiased: bool, epsilon: float) -> Tensor:
    """GRPO-N, the "-N" of two_stage: GRPO that learns from relative failures only.

        A_i = min(0, A_i^GRPO)

    Source: two_stage sec 4.1 (GRPO-N; with GSPO's loss GSPO-N).
    m_S = 0, m_F = sqrt(p*q); unbiased=false and epsilon=0
    Raises UserError for groups of one.
    """
    return grpo(rewards, unbiased=unbiased, epsilon=epsilon).clamp(max=0)
