"""Closed forms of F-GRPO (arXiv 2602.06717v1): tail-miss probability, mass balance, focal weight.

Pure functions on numpy arrays in float64. Trajectory level (Sec. 3.1, App. A): mu_pos is the
success probability of a prompt, tau the mass of its rare-correct answers, N the group size.
Categorical level (Sec. 2.3, 3.2, App. B-D): p is a softmax policy over V actions, `correct` the
mask of the correct ones, `sampled` the mask of the distinct actions drawn, so A = sampled &
correct, B = sampled & ~correct, U = ~sampled. How p moves over many steps is not covered: see the
simulation of App. J, whose update rule also differs from Eq. 7.
"""

import sys
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlog1py

Array = NDArray[np.float64]


# Section 3.1: which groups update the policy, and which of them miss the rare-correct answers


def pr_active(mu_pos: ArrayLike, N: ArrayLike) -> Array:
    """Return the probability that a group has both correct and wrong answers (Eq. 9).

    Pr(A_N) = 1 - mu_pos^N - (1 - mu_pos)^N,  0 < mu_pos < 1
    """
    mu_pos = np.asarray(mu_pos, float)
    return _mixed(np.minimum(mu_pos, 1 - mu_pos), N)


def pr_tail_miss(mu_pos: ArrayLike, tau: ArrayLike, N: ArrayLike) -> Array:
    """Return the probability that a group is mixed and holds no rare-correct answer (Lemma 3.1, Eq.
    11).

        Pr(B_tau) = (1-tau)^N - (mu_pos-tau)^N - (1-mu_pos)^N
                  = (1-tau)^N [1 - s^N - (1-s)^N],  s = (mu_pos-tau)/(1-tau)

    s is the success probability given that no answer is rare-correct. The second form is computed,
    because the terms of the first cancel numerically. tau = 0 gives Pr(A_N), tau = mu_pos gives 0;
    0 <= tau <= mu_pos.
    """
    mu_pos, tau = np.asarray(mu_pos, float), np.asarray(tau, float)
    rarer = np.minimum(mu_pos - tau, 1 - mu_pos) / (1 - tau)
    return np.exp(np.asarray(N) * np.log1p(-tau)) * _mixed(rarer, N)


class Peak(NamedTuple):
    N: int
    value: float  # Pr(B_tau) at N


def peak_group_size(mu_pos: float, tau: float) -> Peak:
    """Return the N that maximises Pr(B_tau) of Eq. 11 (the smaller of a tie) and the maximum.

    With a = mu_pos - tau, b = 1 - mu_pos, c = a + b = 1 - tau, one more answer changes Pr(B_tau) by
    c^N [(1-a)(a/c)^N + (1-b)(b/c)^N - tau]. The bracket falls with N, so the peak is at the first N
    where it is <= 0. At tau = 0 the curve never stops rising: 0 < tau < mu_pos.
    """
    a, b = mu_pos - tau, 1 - mu_pos
    log_a, log_b = np.log1p(-b / (1 - tau)), np.log1p(-a / (1 - tau))  # log(a/c), log(b/c)

    def falls(N: int) -> bool:
        return (1 - a) * np.exp(N * log_a) + (1 - b) * np.exp(N * log_b) <= tau

    N = bisect_left(range(sys.maxsize), True, key=falls)
    return Peak(N, float(pr_tail_miss(mu_pos, tau, N)))


# Sections 2.3 and 3.2: one update of a categorical policy


def batch_baseline(p: Array, correct: Array, sampled: Array, *, R_c: float, R_w: float) -> Array:
    """Return S_R = R_c P_pos + R_w P_neg over the distinct sampled actions (Eq. 17), (..., V) ->
    (...)."""
    return R_c * _sum(p, sampled & correct) + R_w * _sum(p, sampled & ~correct)


def logit_update(
    p: Array, correct: Array, sampled: Array, *, R_c: float, R_w: float, eta: float, N: int
) -> Array:
    """Return dz_i = (eta/N) p_i (R_i - S_R), with R_i = 0 for unsampled actions (Eq. 7).

    (..., V) -> (..., V). It is eta times the gradient in z of (1/N) sum_{i in A or B} R_i p_i. The
    sum counts each distinct action once, unlike a group-relative advantage, which counts repeats.
    """
    S_R = batch_baseline(p, correct, sampled, R_c=R_c, R_w=R_w)
    R = np.where(sampled, np.where(correct, R_c, R_w), 0.0)
    return eta / N * p * (R - S_R[..., None])


def delta_q_u_pos(
    p: Array, correct: Array, sampled: Array, *, R_c: float, R_w: float, eta: float, N: int
) -> Array:
    """Return the first-order change of the unsampled-correct mass (Prop. 3.2, Eq. 13), (..., V) ->
    (...).

        dQ_upos = (eta/N) [-S_R U_pos2 - Q_upos ((R_c - S_R) A_2 + (R_w - S_R) B_2 - S_R U_2)]

    Sec. 3.2 says that both terms are negative when S_R > 0. A large U_2 makes the second positive.
    """
    S_R = batch_baseline(p, correct, sampled, R_c=R_c, R_w=R_w)
    A_2, B_2 = _sum(p**2, sampled & correct), _sum(p**2, sampled & ~correct)
    U_2, U_pos2 = _sum(p**2, ~sampled), _sum(p**2, ~sampled & correct)
    normalisation = (R_c - S_R) * A_2 + (R_w - S_R) * B_2 - S_R * U_2
    return eta / N * (-S_R * U_pos2 - _sum(p, ~sampled & correct) * normalisation)


def exact_delta_mass(p: Array, dz: Array, subset: Array) -> Array:
    """Return a subset's mass under softmax(log p + dz) minus its mass under p, (..., V) -> (...),
    computed with expm1 to keep the relative precision for steps as small as 1e-12."""
    growth = p * np.expm1(dz)
    total = growth.sum(axis=-1)
    return (_sum(growth, subset) - _sum(p, subset) * total) / (1 + total)


# Appendix B: the expectation of S_R given the number of correct answers X


def expected_p_pos(p: Array, correct: Array, k: ArrayLike) -> Array:
    """Return E[P_pos | X = k] = sum_{o in C} p(o) (1 - (1 - p(o)/mu_pos)^k) (Lemma B.1, Eq. 18).

    This is the expected mass of the distinct actions among k draws from p that all lie in the mask.
    p and the mask are (V,), the result has k's shape. N does not enter.
    """
    # if only one action is correct, q = p / mass = 1: rounding must not put it above 1
    q = np.minimum(p[correct] / _sum(p, correct), 1.0)
    return -np.expm1(xlog1py(np.asarray(k)[..., None], -q)) @ p[correct]


def expected_p_neg(p: Array, correct: Array, k: ArrayLike, *, N: int) -> Array:
    """Return E[P_neg | X = k] = sum_{o not in C} p(o) (1 - (1 - p(o)/(1-mu_pos))^(N-k)) (Eq. 19).
    Shapes as in `expected_p_pos`; k <= N."""
    return expected_p_pos(p, ~np.asarray(correct), N - np.asarray(k))


def expected_s_r(
    p: Array, correct: Array, k: ArrayLike, *, N: int, R_c: float, R_w: float
) -> Array:
    """Return E[S_R | X = k] = R_c E[P_pos | X = k] + R_w E[P_neg | X = k] (App. B).

    Non-decreasing in k if R_w <= 0 (Corollary B.2) and R_c >= 0; only the proof of the corollary
    states the second condition. Shapes as in `expected_p_neg`.
    """
    return R_c * expected_p_pos(p, correct, k) + R_w * expected_p_neg(p, correct, k, N=N)


# Section 4: focal weight


def scaled_advantage(mu_pos: ArrayLike, *, gamma: float) -> tuple[Array, Array]:
    """Return g |A_GRPO| of a correct and of a wrong answer at the success rate mu_pos (Fig. 3).

        correct: (1-mu)^gamma sqrt((1-mu)/mu), wrong: (1-mu)^gamma sqrt(mu/(1-mu)) (Eq. 4, 15, 16)

    This is Eq. 4 with epsilon -> 0 and the population standard deviation; R_c and R_w cancel. A
    group of finite N has exactly these values at mu = mu_hat = X/N; Bessel's correction multiplies
    them by sqrt((N-1)/N). As mu -> 1 the value of a wrong answer goes to 0 for gamma > 1/2, to 1 at
    gamma = 1/2 and to infinity for smaller gamma.
    """
    mu_pos = np.asarray(mu_pos, float)
    g = (1 - mu_pos) ** gamma
    return g * np.sqrt((1 - mu_pos) / mu_pos), g * np.sqrt(mu_pos / (1 - mu_pos))


def _mixed(rarer: Array, N: ArrayLike) -> Array:
    """Return 1 - (1-m)^N - m^N for m = `rarer` <= 1/2, with full relative precision."""
    N = np.asarray(N, float)
    return np.where(N == 1, 0.0, -np.expm1(N * np.log1p(-rarer)) - rarer**N)


def _sum(values: Array, subset: Array) -> Array:
    return np.sum(values, axis=-1, where=subset)
