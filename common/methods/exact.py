"""Exact expectations of what a method's weights do to a softmax policy; nothing is sampled.

A group has G responses of one action each, and X ~ Binomial(G, p) of them are right. `masses` and
`expected_update` are FADE's Eq. 3.
"""

import math

import torch


def binomial(G: int, p: float) -> torch.Tensor:
    """Return Pr(X = x) for x = 0..G, float64."""
    chances = [math.comb(G, x) * p**x * (1 - p) ** (G - x) for x in range(G + 1)]
    return torch.tensor(chances, dtype=torch.float64)


def masses(weights: torch.Tensor, p: float) -> dict[str, float | None]:
    """Return the gradient masses and further expectations at solve rate p, from the `weights` of
    all groups, (G + 1, G) in the order of `all_groups`.

        m_S   = E[(1/G) sum_{i in S} A_i],  m_F = -E[(1/G) sum_{i in F} A_i]     (FADE Eq. 3)
        rho   = m_S p / (m_F q)                                                  (sec 11.3)
        N_eff = G (E|A|)^2 / E[A^2], Kish's size of a group of weighted responses
        var   = E[A^2] - E[A]^2 over responses
        var_group = variance over groups of their mass, the mean of the two      (Fig. 7)

    All expectations are over X ~ Binomial(G, p). A ratio with denominator 0 is None.
    """
    G = weights.shape[1]
    chance = binomial(G, p)
    success = torch.ones_like(weights, dtype=torch.bool).tril(-1)
    of_S = torch.where(success, weights, 0).mean(1)
    of_F = -torch.where(success, 0, weights).mean(1)
    m_S, m_F = (chance @ of_S).item(), (chance @ of_F).item()
    size, square = (chance @ weights.abs().mean(1)).item(), (chance @ (weights**2).mean(1)).item()
    group = (of_S + of_F) / 2
    return {
        "m_S": m_S,
        "m_F": m_F,
        "rho": m_S * p / (m_F * (1 - p)) if m_F * (1 - p) != 0 else None,
        "N_eff": G * size**2 / square if square > 0 else None,
        "var": square - (m_S - m_F) ** 2,
        "var_group": (chance @ group**2 - (chance @ group) ** 2).item(),
    }


def expected_update(
    weights: torch.Tensor, policy: torch.Tensor, correct: torch.Tensor
) -> torch.Tensor:
    """Return E[(1/G) sum_i A_i grad_z log pi(a_i)] for the logits z of a softmax policy, (K,).

    = m_S (pi_S - pi) - m_F (pi_F - pi)

    policy (K,) sums to 1, correct (K,) is boolean; pi_S is the policy given success. The result is
    exact for weights that depend on the outcomes only: given X, the successes are independent draws
    from pi_S.
    """
    mass = masses(weights, policy[correct].sum().item())
    pulls = []
    for side in (correct, ~correct):
        share = torch.where(side, policy, 0)
        pulls.append(share / share.sum() - policy if side.any() else torch.zeros_like(policy))
    return mass["m_S"] * pulls[0] - mass["m_F"] * pulls[1]


def entropy(policy: torch.Tensor) -> float:
    """Return -sum_a pi_a log pi_a in nats."""
    return torch.special.entr(policy).sum().item()
