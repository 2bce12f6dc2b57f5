"""Exact expectations of what a method's weights do to a softmax policy; nothing is sampled.

A group has G responses of one action each, and X ~ Binomial(G, p) of them are right. `masses` and
`expected_update` are FADE's Eq. 3; the other updates enumerate the groups of G actions.
"""

import itertools
import math
from collections.abc import Callable

import torch

from common.config.schema import Reward
from common.errors import require
from common.methods.binding import Bound, group_weights, of_tokens, top_K

MOST_GROUPS = 100_000  # the most that an exact step enumerates


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


def enumerated_update(
    bound: Bound,
    policy: torch.Tensor,
    correct: torch.Tensor,
    *,
    G: int,
    reward: Reward,
    arguments: dict,
) -> torch.Tensor:
    """Return `expected_update` for weights that depend on more than the outcomes, here on how
    likely each response was: the sum over all groups of G actions, each with its multinomial
    probability.

    policy (K,) sums to 1, correct (K,) is boolean. Raises UserError for more than MOST_GROUPS.
    """
    drawn, chance = all_draws(policy, G)
    one_hot = torch.nn.functional.one_hot(drawn, len(policy)).to(policy.dtype)
    weights = group_weights(bound, correct[drawn], reward, arguments, policy.log()[drawn])
    pulls = (weights[:, :, None] * (one_hot - policy)).mean(1)
    return chance @ pulls


def loss_update(
    bound: Bound,
    policy: torch.Tensor,
    correct: torch.Tensor,
    *,
    G: int,
    reward: Reward,
    arguments: dict,
) -> torch.Tensor:
    """Return `enumerated_update` for a loss that looks at the likeliest tokens: -grad_z of the mean
    loss of a response, in expectation over all groups.

    Each response has two tokens here, a certain one of entropy 0 and the action, because the only
    token of a response is never above the entropy quantile of its response. Raises UserError as
    `enumerated_update` does, and for fewer actions than the loss looks at.
    """
    K = top_K(bound)
    require(len(policy) >= K, "policy", policy.tolist(), f"give at least method.loss.K={K} actions")
    drawn, chance = all_draws(policy, G)
    weights = group_weights(bound, correct[drawn], reward, arguments, policy.log()[drawn])
    weights = weights.view(-1, 1)
    logits, likeliest = policy.log().requires_grad_(), policy.argsort(descending=True)
    log_p, actions = torch.log_softmax(logits, 0), drawn.flatten()

    def after_certain(values: torch.Tensor) -> torch.Tensor:  # (B, ...) -> (B, 2, ...)
        return torch.stack([torch.zeros_like(values), values], 1)

    log_prob = after_certain(log_p[actions])
    seen = of_tokens(
        bound,
        entropy=after_certain(torch.full_like(log_p[actions].detach(), entropy(policy))),
        top_log_prob=after_certain(log_p[likeliest[:K]].expand(len(actions), K)),
        drawn_top=after_certain(actions == likeliest[0]),
    )
    loss, _ = bound.loss(log_prob, log_prob.detach(), weights, torch.ones_like(log_prob), **seen)
    total = chance @ loss.sum(1).view(drawn.shape).mean(1)
    return -torch.autograd.grad(total, logits)[0]


def all_draws(policy: torch.Tensor, G: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return every group of G actions regardless of their order, (N, G), and its multinomial
    probability, (N,). Raises UserError for more than MOST_GROUPS."""
    count = math.comb(G + len(policy) - 1, G)
    require(count <= MOST_GROUPS, "G", G, f"{count} groups; give fewer responses or actions")
    drawn = torch.tensor(list(itertools.combinations_with_replacement(range(len(policy)), G)))
    times = torch.nn.functional.one_hot(drawn, len(policy)).to(policy.dtype).sum(1)
    log_chance = math.lgamma(G + 1) - torch.lgamma(times + 1).sum(1) + times @ policy.log()
    return drawn, log_chance.exp()


def rehearsal_update(
    divergence: Callable, policy: torch.Tensor, reference: torch.Tensor
) -> tuple[float, torch.Tensor]:
    """Return (D_f(pi || pi_ref), -grad_z D_f) for the logits z of a softmax policy, (K,), exactly:
    the sum over actions of the gradient at each, weighted by the probability pi_ref with which the
    base model draws it.

        forward_kl       pi_ref - pi
        jensen_shannon   -pi (w - sum_a pi_a w_a),   w = log(2 pi / (pi + pi_ref))

    policy (K,) and reference (K,) are positive and sum to 1.
    """
    z = policy.log().requires_grad_()
    total = reference @ divergence(torch.log_softmax(z, 0), reference.log())
    (gradient,) = torch.autograd.grad(total, z)
    return total.item(), -gradient


def entropy(policy: torch.Tensor) -> float:
    """Return -sum_a pi_a log pi_a in nats."""
    return torch.special.entr(policy).sum().item()


def after_step(policy: torch.Tensor, update: torch.Tensor, eta: float) -> torch.Tensor:
    """Return the policy after one step z <- z + eta update on its logits, (K,)."""
    return torch.softmax(policy.log() + eta * update, 0)
