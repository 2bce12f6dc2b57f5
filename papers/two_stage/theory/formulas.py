"""Lemma 1, Theorem 1, Remark 2 and Proposition 1 of the two-stage paper, in numpy.

p is a softmax policy and r the rewards of its V actions, both (..., V); eta is the learning rate.
Lemma 1's Delta z is the true change of the logits if the logits are the parameters. In a network
the change is the kernel K times Delta z (Proposition 1). The paper leaves out KL, clip and entropy
bonus here (sec 2), and so do these functions.
"""

from functools import cache
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
from scipy import special


def softmax(z: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Return exp(z_v / tau) / sum_u exp(z_u / tau). Sec 3.2 prints the sum over u != v only, which
    does not give a softmax."""
    return special.softmax(np.asarray(z, float) / temperature, axis=-1)


def logit_update(p: np.ndarray, v: int, *, advantage: float, eta: float) -> np.ndarray:
    """Return Lemma 1's Delta z after action v was sampled, (..., V).

    Delta z_v = eta A (1 - p_v),  Delta z_u = -eta A p_u  for u != v
    """
    p = np.asarray(p, float)
    return eta * advantage * (np.eye(p.shape[-1])[v] - p)


def expected_logit_update(p: np.ndarray, advantage: np.ndarray, *, eta: float) -> np.ndarray:
    """Return Theorem 1's E[Delta z] for an advantage that is fixed for each action, (..., V).

        eta p_v [ (1 - p_v) A_v - sum_{u != v} p_u A_u ]  =  eta p_v (A_v - sum_u p_u A_u)

    Adding a constant to A changes nothing.
    """
    p, advantage = np.asarray(p, float), np.asarray(advantage, float)
    return eta * p * (advantage - (p * advantage).sum(-1, keepdims=True))


def expected_group_update(p: np.ndarray, r: np.ndarray, *, eta: float, G: int) -> np.ndarray:
    """Return E[Delta z] of Algorithm 1's step with A_i = r_i - the group's mean reward, (..., V).

        (1 - 1/G) eta p_v (r_v - sum_u p_u r_u)

    Theorem 1 holds for a fixed A only. A response is part of its group's baseline, which removes
    1/G of the expected step (INC015).
    """
    return (1 - 1 / G) * expected_logit_update(p, r, eta=eta)


def enumerated_group_update(
    p: np.ndarray, r: np.ndarray, *, eta: float, G: int, negative_only: bool
) -> np.ndarray:
    """Return the exact E[Delta z] of Algorithm 1's step, by enumerating all groups of G.

        (eta / G) E[ sum_i w_i A_i (e_{a_i} - p) ]

    p, r: (V,). w_i = 1, or with `negative_only` (App. B.5) the indicator of A_i < 0, for which
    there is no closed form.
    """
    p, r = np.asarray(p, float), np.asarray(r, float)
    counts, ways = groups(len(p), G)
    chances = ways * (p**counts).prod(1)
    advantage = r - counts @ r[:, None] / G  # (groups, V)
    if negative_only:
        advantage = np.minimum(advantage, 0)
    pull = chances @ (counts * advantage)
    return eta / G * (pull - p * pull.sum())


@cache
def groups(V: int, G: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how often each of V actions occurs in every multiset of G actions, (M, V), and in how
    many orders the multiset can be drawn, (M,)."""
    drawn = combinations_with_replacement(range(V), G)
    counts = [[group.count(v) for v in range(V)] for group in drawn]
    ways = [factorial(G) // prod(map(factorial, row)) for row in counts]
    return np.array(counts), np.array(ways)


def expected_path(
    z: np.ndarray,
    r: np.ndarray,
    steps: list[int],
    *,
    eta: float,
    G: int,
    negative_only: bool,
    temperature: float = 1.0,
) -> np.ndarray:
    """Return the policy at the given steps if every plain step is its expectation, (len(steps), V).

    z: initial logits (V,); steps in rising order; the policy is softmax(z / temperature).
    """
    path, z = [], np.asarray(z, float)
    for step in range(steps[-1] + 1):
        p = softmax(z, temperature)
        if step == steps[len(path)]:
            path.append(p)
        if negative_only:
            z = z + enumerated_group_update(p, r, eta=eta, G=G, negative_only=True)
        else:
            z = z + expected_group_update(p, r, eta=eta, G=G)
    return np.array(path)


def others_fall(p: np.ndarray, v: int) -> np.ndarray:
    """Return for each u whether p_u falls, to first order, when v is sampled with A > 0, (..., V).

        p_u falls  <=>  p_u + p_v > sum_w p_w^2          (u != v; False at v itself)

    This follows from Lemma 1; it is not printed. Remark 2 says that all p_u fall, but where another
    action is dominant, a rare v takes its mass from that action, and rare u gain too. With A < 0
    all signs are reversed: p_u then rises only where this function is true, so mass taken from v
    goes to actions that are already likely.
    """
    p = np.asarray(p, float)
    falls = p + p[..., v, None] > (p**2).sum(-1, keepdims=True)
    falls[..., v] = False
    return falls


def empirical_ntk(jacobian: np.ndarray) -> np.ndarray:
    """Return K = (grad z)(grad z)^T, (V, V), from the logits' Jacobian, (V, d)."""
    return jacobian @ jacobian.T


def delta_log_prob(p: np.ndarray, kernel: np.ndarray, dz: np.ndarray) -> np.ndarray:
    """Return Proposition 1 without its error term: [I - e p^T] K Delta z, (V,).

    Delta z = eta grad_z J is Lemma 1's. The error is second order in the parameter step; the
    paper's O(eta^2 ||grad z||^2) leaves out the curvature of z.
    """
    moved = kernel @ dz
    return moved - p @ moved
