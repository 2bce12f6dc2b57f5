"""Advantages made from a function of the group's rewards: `(P, G) rewards -> (P, G) weights`.

Both use exp(beta R), so beta has the unit 1 / reward: R in {-1, 1} with beta corresponds to R in
{0, 1} with 2 beta. The lines "m_S =" are explained in `group.py`; in them z = p exp(beta) + q.
"""

import math

import torch
from torch import Tensor

from common.advantages.parts import mixed, needs_groups, require


def softmax(rewards: Tensor, *, beta: float) -> Tensor:
    """Softmax advantage: the softmax weight of a response minus a uniform baseline.

        A_i = exp(beta R_i) / sum_j exp(beta R_j) - 1 / G

    Source: FADE sec 8.9; Shao et al. 2024.
    m_S = m_F = (exp(beta) - 1)*p*q / (G*z)
    As printed, the advantages have the size 1 / G, which FADE's mass leaves out. For large beta the
    mass tends to q / G, MaxRL's shape (FADE: "the pass@k advantage"); for small beta to 0 as p q.
    Raises UserError for beta <= 0 or groups of one.
    """
    require(beta > 0, "beta", beta, "must be > 0")
    needs_groups(rewards, "softmax")
    weight = torch.softmax(beta * rewards, 1) - 1 / rewards.shape[1]
    return torch.where(mixed(rewards), weight, 0.0)


def risk_sensitive(rewards: Tensor, *, beta: float) -> Tensor:
    """RS-GRPO: the gradient of the group's soft maximum, which is G / beta times `softmax`.

        A_i = (exp(beta (R_i - lme(R))) - 1) / beta,  lme(R) = (1 / beta) log mean_j exp(beta R_j)

    Source: Jiang et al. 2025 (arXiv 2509.24261); the formula of the authors' code, with beta = 2.
    m_S = m_F = (exp(beta) - 1)*p*q / (beta*z)
    For small beta it is `mean_only`. Raises UserError for beta <= 0 or groups of one.
    """
    return softmax(rewards, beta=beta) * rewards.shape[1] / beta


def log_mean_exp(rewards: Tensor, *, beta: float) -> Tensor:
    """Leave-one-out log-mean-exp: what a response adds to the group's soft maximum.

        A_i = lme(R) - lme(R without R_i),  lme(R) = (1 / beta) log mean_j exp(beta R_j)

    Source: FADE sec 8.9, for Jiang et al. 2025, whose own formula is `risk_sensitive`.
    m_S = -p/beta * log((G - exp(beta)/z) / (G - 1)), m_F = q/beta * log((G - 1/z) / (G - 1))
    For large G the two masses become equal, with softmax's shape. FADE's p exp(beta) / z and q / z
    do not follow from this formula. Raises UserError for beta <= 0 or groups of one.
    """
    require(beta > 0, "beta", beta, "must be > 0")
    needs_groups(rewards, "log_mean_exp")
    size = rewards.shape[1]
    scaled = beta * rewards
    # (P, G, G): row i is the group without i. Subtracting one term would cancel for large beta.
    others = scaled[:, None].masked_fill(
        torch.eye(size, dtype=torch.bool, device=rewards.device), -math.inf
    )
    whole = torch.logsumexp(scaled, 1, keepdim=True) - math.log(size)
    rest = torch.logsumexp(others, 2) - math.log(max(size - 1, 1))
    return torch.where(mixed(rewards), (whole - rest) / beta, 0.0)
