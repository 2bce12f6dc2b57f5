"""Advantages that differ in what is subtracted from the reward: `(P, G) rewards -> (P, G) weights`.

The functions take any rewards. The lines "m_S =" (`group.py`) hold for rewards in {0, 1} only.
"""

import math

from torch import Tensor

from common.advantages.parts import centred, needs_groups, require


def reinforce(rewards: Tensor) -> Tensor:
    """REINFORCE without a baseline: the reward itself.

        A_i = R_i

    Source: FADE sec 2; Williams 1992.
    m_S = p, m_F = 0
    Groups of one or of equal rewards keep theirs. With a reward of -1 for failures, m_F = q.
    """
    return rewards


def rloo(rewards: Tensor) -> Tensor:
    """RLOO: the mean of the other responses is subtracted.

        A_i = R_i - mean_{j != i} R_j = G / (G - 1) (R_i - mean_j R_j)

    Source: Ahmadian et al. 2024 (arXiv 2402.14740); Kool et al. 2019.
    m_S = m_F = G/(G - 1) * p*q
    Peers: verl rloo, TRL RLOOTrainer
    Raises UserError for groups of one (verl gives such a response its reward).
    """
    size = rewards.shape[1]
    return centred(rewards, "rloo") * (size / max(size - 1, 1))


def asym_rl(rewards: Tensor, *, delta: float) -> Tensor:
    """AsymRL: mean GRPO with the baseline shifted up by delta, towards learning from failures.

        A_i = R_i - (mean_j R_j + delta)

    Source: FADE sec 8.5; Arnal et al. 2026.
    m_S = p*(q - delta), m_F = q*(p + delta)
    delta = 0 is mean GRPO. In a group of equal rewards each response gets -delta.
    Raises UserError for groups of one.
    """
    return centred(rewards, "asym_rl") - delta


def quantile(rewards: Tensor, *, tau: float) -> Tensor:
    """Quantile baseline: only successes have weight on hard prompts, only failures on easy ones.

        A_i = R_i - Q,  Q = 0 if p <= tau, 1 if p > tau

    Source: FADE sec 8.6; Dabney et al. 2018.
    m_S = p*(p <= tau), m_F = q*(p > tau)
    FADE calls Q the tau-quantile, but its step function and masses, followed here, belong to the
    lower (1 - tau)-quantile: the reward that at most tau G responses exceed. At tau = 1/2 this is
    MC-GRPO (Kim 2026, arXiv 2601.22582) without its extra rollout and any division, as in FADE.
    Raises UserError for tau outside (0, 1) or groups of one.
    """
    require(0 < tau < 1, "tau", tau, "must be in (0, 1)")
    needs_groups(rewards, "quantile")
    size = rewards.shape[1]
    # 1e-9 corrects products such as 0.29 * 100 = 28.999999999999996.
    rank = min(math.floor(tau * size + 1e-9), size - 1)
    return rewards - rewards.sort(1, descending=True).values[:, rank : rank + 1]


def relu(rewards: Tensor) -> Tensor:
    """ReLU advantage: mean GRPO that learns from successes only.

        A_i = max(0, R_i - mean_j R_j)

    Source: FADE sec 8.11; Srinivasan et al. 2018.
    m_S = p*q, m_F = 0
    Raises UserError for groups of one.
    """
    return centred(rewards, "relu").clamp(min=0)
