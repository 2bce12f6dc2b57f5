"""Lemma 1, Theorem 1, GRPO-N, Remark 2 and Proposition 1 of the two-stage paper, in numpy.

p is a softmax policy and r the rewards of its V actions, both (..., V); eta is the learning rate.
Lemma 1's Delta z is the real change of the logits where the logits are the parameters; in a network
it is the kernel K times Delta z (Proposition 1). The paper leaves out KL, clip and entropy bonus
here (sec 2), and so do these functions.
"""

from functools import cache
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np

from common.errors import require


def softmax(z: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """exp(z_v / tau) / sum_u exp(z_u / tau). Sec 3.2 prints the sum over u != v, which is none."""
    scaled = np.asarray(z, float) / temperature
    weights = np.exp(scaled - scaled.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def logit_update(p: np.ndarray, v: int, *, advantage: float, eta: float) -> np.ndarray:
    """Lemma 1: Delta z after action v was sampled, (..., V).

    Delta z_v = eta A (1 - p_v),  Delta z_u = -eta A p_u  for u != v
    """
    p = np.asarray(p, float)
    return eta * advantage * (np.eye(p.shape[-1])[v] - p)


def expected_logit_update(p: np.ndarray, advantage: np.ndarray, *, eta: float) -> np.ndarray:
    """Theorem 1: E[Delta z] for an advantage that is fixed for each action, (..., V).

        eta p_v [ (1 - p_v) A_v - sum_{u != v} p_u A_u ]  =  eta p_v (A_v - sum_u p_u A_u)

    A constant added to A changes nothing.
    """
    p, advantage = np.asarray(p, float), np.asarray(advantage, float)
    return eta * p * (advantage - (p * advantage).sum(-1, keepdims=True))


def expected_group_update(p: np.ndarray, r: np.ndarray, *, eta: float, G: int) -> np.ndarray:
    """E[Delta z] of Algorithm 1's step with A_i = r_i - mean of the group's rewards, (..., V).

        (1 - 1/G) eta p_v (r_v - sum_u p_u r_u)

    Theorem 1 holds for a fixed A only: a response is part of its own baseline, and that takes 1/G
    of the expected step (INC015). Raises UserError for G < 1.
    """
    require(G >= 1, "G", G, "a group needs at least 1 sample")
    return (1 - 1 / G) * expected_logit_update(p, r, eta=eta)


def enumerated_group_update(
    p: np.ndarray, r: np.ndarray, *, eta: float, G: int, negative_only: bool
) -> np.ndarray:
    """E[Delta z] of Algorithm 1's step by enumerating all groups of G, exact; p, r: (V,).

        (eta / G) E[ sum_i w_i A_i (e_{a_i} - p) ]

    w_i = 1, or with `negative_only` (App. B.5) the indicator of A_i < 0, which has no closed form.
    """
    p, r = np.asarray(p, float), np.asarray(r, float)
    counts, ways = groups(len(p), G)
    chances = ways * (p**counts).prod(1)
    advantage = r - counts @ r[:, None] / G  # (groups, V)
    if negative_only:
        advantage = np.minimum(advantage, 0)
    pull = chances @ (counts * advantage)
    return eta / G * (pull - p * pull.sum())


def enumerated_grpo(
    p: np.ndarray, right: np.ndarray, *, G: int, weight: np.ndarray, negative_only: bool
) -> np.ndarray:
    """E of GRPO's first step over all groups of G, exact, in the logits of one prompt, (V,).

        E[ (1/G) sum_i w_{a_i} A_i (e_{a_i} - p) ],  A_i = (R_i - mean R) / std R

    right: (V,), 1 for a right answer, else 0. weight: (V,), what a response's gradient is
    multiplied with: 1 for the token mean, whose divisor is held fixed, 1/|y| as Eqs. 1 and 2 print
    it. negative_only: A_i < 0 alone (App. B.5). std is unbiased; a group without two rewards has no
    step.
    """
    p, right, weight = (np.asarray(each, float) for each in (p, right, weight))
    counts, ways = groups(len(p), G)
    chances = ways * (p**counts).prod(1)
    rate = counts @ right / G
    std = np.sqrt(rate * (1 - rate) * G / (G - 1))[:, None]
    advantage = np.divide(right - rate[:, None], std, where=std > 0, out=np.zeros(counts.shape))
    if negative_only:
        advantage = np.minimum(advantage, 0)
    pull = chances @ (counts * advantage) * weight / G
    return pull - p * pull.sum()


def negative_only_step(
    p: np.ndarray, right: np.ndarray, *, G: int, weight: np.ndarray
) -> np.ndarray:
    """What E of the -N step is, made of E of GRPO's and the lengths, (V,). Ours, not printed.

        E[g_-N] = p_R E[g_GRPO] - c grad E[w],  c = E[ X (G - X) / (G^2 std) ],  X ~ Bin(G, p_R)

    p_R is the prompt's chance of a right answer. Given X, right and wrong responses are draws of
    their own distributions, with means s_R and s_W of w grad log pi. So g_GRPO has the mean
    (X (G - X) / (G^2 std)) (s_R - s_W) and g_-N its part with s_W, and p_R s_R + (1 - p_R) s_W =
    grad E[w]. With w = 1 that is 0: to first order -N is GRPO times the solve rate. With w = 1/|y|
    the last term pushes E[1/|y|] down whatever the rewards are: longer responses.
    """
    p, right, weight = (np.asarray(each, float) for each in (p, right, weight))
    rate = p @ right
    X = np.arange(1, G)
    chances = np.array([comb(G, x) for x in X]) * rate**X * (1 - rate) ** (G - X)
    c = chances @ np.sqrt(X * (G - X) * (G - 1)) / G**1.5  # X (G - X) / (G^2 std)
    slope = p * (weight - p @ weight)  # grad E[w] in the logits
    both = enumerated_grpo(p, right, G=G, weight=weight, negative_only=False)
    return rate * both - c * slope


@cache
def groups(V: int, G: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each of V actions occurs in every multiset of G, (M, V), and in how many orders
    that can be drawn, (M,)."""
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
    """The policy where every plain step is its expectation, at the given steps, (len(steps), V).

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


def delta_prob(p: np.ndarray, dz: np.ndarray) -> np.ndarray:
    """First-order change of p after z <- z + dz: p_v (dz_v - sum_u p_u dz_u), (..., V)."""
    p = np.asarray(p, float)
    return p * (dz - (p * dz).sum(-1, keepdims=True))


def others_fall(p: np.ndarray, v: int) -> np.ndarray:
    """Whether p_u falls, to first order, when v is sampled with A > 0, for each u, (..., V).

        p_u falls  <=>  p_u + p_v > sum_w p_w^2          (u != v; False at v itself)

    Remark 2 says that all p_u fall. They do not: where another action is dominant, a rare v takes
    from it, and rare u gain too. With A < 0 all signs turn round: p_u then rises only where this is
    true, so mass taken from v goes to actions that are likely already. From Lemma 1, not printed.
    """
    p = np.asarray(p, float)
    falls = p + p[..., v, None] > (p**2).sum(-1, keepdims=True)
    falls[..., v] = False
    return falls


def empirical_ntk(jacobian: np.ndarray) -> np.ndarray:
    """K = (grad z)(grad z)^T, (V, V), from the Jacobian of the logits in the parameters, (V, d)."""
    return jacobian @ jacobian.T


def delta_log_prob(p: np.ndarray, kernel: np.ndarray, dz: np.ndarray) -> np.ndarray:
    """Proposition 1 without its error term: [I - e p^T] K Delta z, (V,).

    Delta z = eta grad_z J, Lemma 1's. The error is of second order in the step of the parameters;
    the paper's O(eta^2 ||grad z||^2) leaves out the curvature of z.
    """
    moved = kernel @ dz
    return moved - p @ moved
