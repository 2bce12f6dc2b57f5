"""Closed forms of over_sharpening (arXiv 2601.15609): what an optimal update does to modes that are
not in the batch, and how an update at one query moves the logits at another.

Pure functions on float64 numpy arrays; leading axes broadcast. A policy over K modes is (..., K),
`correct` (..., K) is boolean, counts N_i (..., K) say how often each mode is in the batch of G, and
a kernel K_qq is (..., G, G). The paper's contradictions are in published/inconsistencies.csv;
tables.py counts how often each statement fails on random instances.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw, softmax, xlogy

from common.errors import require

Array = NDArray[np.float64]

# ---- Definition 2.1 and the infinite-sample regime


def over_sharpened(new: Array, ref: Array, correct: Array) -> Array:
    """Return whether the probability of some correct mode fell, (...,) boolean (Definition 2.1); if
    none fell, the paper calls it moderate sharpening. Falls within rounding (1e-12 of the mode's
    mass) do not count."""
    return (correct & (new < ref * (1 - 1e-12))).any(-1)


def kl(pi: Array, ref: Array) -> Array:
    """Return KL(pi || ref) in nats, (...,)."""
    return (xlogy(pi, pi) - xlogy(pi, ref)).sum(-1)


def optimum(ref: Array, advantage: Array, beta: float) -> Array:
    """Return the maximiser of sum_o pi(o) A(o) - beta KL(pi || ref) (Theorem 2.1, Eq. 2).

    pi*(o) = ref(o) exp(A(o) / beta) / Z. Raises UserError for beta <= 0: there is no maximiser.
    """
    require(beta > 0, "beta", beta, "must be above 0")
    return softmax(np.log(ref) + np.asarray(advantage) / beta, axis=-1)


def objective(pi: Array, ref: Array, advantage: Array, beta: float) -> Array:
    """Return Eq. 1 for one query: sum_o pi(o) A(o) - beta KL(pi || ref)."""
    return (pi * advantage).sum(-1) - beta * kl(pi, ref)


# ---- the finite batch


def batch_target(counts: Array, advantage: Array) -> Array:
    """Return N_i A_i / G, (..., K), which takes the place of the advantage in a batch."""
    counts = np.asarray(counts, float)
    return counts * advantage / counts.sum(-1, keepdims=True)


def batch_optimum(ref: Array, counts: Array, advantage: Array, beta: float) -> Array:
    """Return pi_hat(o_i) = ref_i exp(N_i A_i / (beta G)) / Z' (Theorem 2.2, Eq. 4).

    The paper calls it the maximiser of Eq. 3, which has log pi_i. In fact it maximises the linear
    objective sum_i (N_i A_i / G) pi_i - beta KL: `objective` with `batch_target` as the advantage.
    """
    return optimum(ref, batch_target(counts, advantage), beta)


def partition(ref: Array, counts: Array, advantage: Array, beta: float) -> Array:
    """Return Z' of Theorem 2.2. Eq. 4 scales every mode with N_i = 0 by 1 / Z'."""
    return (ref * np.exp(batch_target(counts, advantage) / beta)).sum(-1)


def printed_objective(pi: Array, ref: Array, counts: Array, advantage: Array, beta: float) -> Array:
    """Return Eq. 3 with the KL of App. B: sum_i (N_i A_i / G) log pi_i - beta KL(pi || ref).

    It is unbounded above as soon as one sampled mode has A_i < 0: log pi_i -> -inf while the KL
    stays finite.
    """
    target = batch_target(counts, advantage)
    logs = np.where(target == 0, 0.0, np.log(np.where(target == 0, 1.0, pi)))
    return (target * logs).sum(-1) - beta * kl(pi, ref)


def printed_optimum(ref: Array, counts: Array, advantage: Array, beta: float) -> Array:
    """Return the maximiser of Eq. 3 for advantages >= 0, one policy (K,).

    With c_i = N_i A_i / G: c_i / pi_i - beta log(pi_i / ref_i) = m for all i, so pi_i = ref_i
    exp(-m / beta) exp(W(c_i exp(m / beta) / (beta ref_i))) with Lambert's W and a root search
    (Brent) for m. Modes without a sample share one factor here too. Raises UserError for a negative
    N_i A_i, where there is no maximiser.
    """
    from scipy.optimize import brentq

    c = batch_target(counts, advantage)
    require(bool((c >= 0).all()), "advantage", c.min(), "Eq. 3 has no maximum with A < 0")

    def policy(s):  # s = m / beta
        return ref * np.exp(-s) * np.exp(lambertw(c / (beta * ref) * np.exp(s)).real)

    high = 1.0
    while policy(high).sum() > 1:
        high *= 2
    # the sum falls with s; at s = 0 it is at least 1
    s = brentq(lambda s: policy(s).sum() - 1, 0.0, high, xtol=1e-14)
    return policy(s) / policy(s).sum()


class Bounds(NamedTuple):
    """Theorem 2.3's lower bounds on Z'; `simplified` is NaN where a side has no sample."""

    first: Array
    simplified: Array
    gap: Array  # Delta_pi = least ref of the sampled correct modes - largest of the wrong ones


def partition_bounds(
    ref: Array, counts: Array, correct: Array, *, A_plus: Array, A_minus: Array, beta: float
) -> Bounds:
    """Return both lower bounds of Theorem 2.3 on Z'.

        first      = 1 + (A+ sum_{S+} N_i ref_i - |A-| sum_{S-} N_j ref_j) / (beta G)
        simplified = 1 + p+ (1 - p+) Delta_pi / (beta sigma)

    The second holds for A+ = (1 - p+) / sigma and A- = -p+ / sigma only, where A+ - A- = 1 / sigma.
    A_plus >= 0 >= A_minus, both (...,).
    """
    counts = np.asarray(counts, float)
    G = counts.sum(-1)
    plus = (counts * ref * correct).sum(-1)
    minus = (counts * ref * ~correct).sum(-1)
    first = 1 + (A_plus * plus - np.abs(A_minus) * minus) / (beta * G)
    sampled = counts > 0
    lowest = np.where(sampled & correct, ref, np.inf).min(-1)
    highest = np.where(sampled & ~correct, ref, -np.inf).max(-1)
    gap = np.where(np.isfinite(lowest) & np.isfinite(highest), lowest - highest, np.nan)
    p = (counts * correct).sum(-1) / G
    return Bounds(first, 1 + p * (1 - p) * (A_plus - A_minus) / beta * gap, gap)


def normalised_advantages(p: Array) -> tuple[Array, Array]:
    """Return (A+, A-) = ((1 - p+) / sigma, -p+ / sigma) of a group with success rate p+ in (0, 1),
    with the population's sigma = sqrt(p (1 - p)). The paper does not say which."""
    sigma = np.sqrt(p * (1 - p))
    return (1 - p) / sigma, -p / sigma


def geometric_step(pi: Array, target: Array, eta: float, beta: float) -> Array:
    """Return pi^(1 - eta beta) target^(eta beta), normalised (Theorem B.1).

    With target = pi_hat this is exactly one natural-gradient (mirror ascent) step of the linear
    objective, not a plain gradient step on the logits of a softmax: App. B's derivative of the KL
    drops a factor pi_i.
    """
    return softmax((1 - eta * beta) * np.log(pi) + eta * beta * np.log(target), axis=-1)


# ---- semantic coupling (Sec. 2.3)


def dual(K: Array, y: Array) -> Array:
    """Return alpha = K_qq^+ y, (..., G), for K (..., G, G) and y (..., G): Delta f(q', o') = k^T
    alpha. If a batch holds a mode twice, K_qq is singular and the paper's inverse does not exist;
    hence the pseudoinverse."""
    return (np.linalg.pinv(K, rcond=1e-10, hermitian=True) @ y[..., None])[..., 0]


class Spread(NamedTuple):
    """The least and largest entries of a kernel: lambda on the diagonal, rho off it."""

    lambda_min: Array
    lambda_max: Array
    rho_min: Array
    rho_max: Array


def spread(K: Array, distinct: Array | None = None) -> Spread:
    """Return the spread of kernels (..., G, G). For rho only pairs of different modes count, which
    `distinct` (..., G, G) marks: copies of one mode would make rho_max = lambda and the bounds
    empty."""
    G = K.shape[-1]
    off = ~np.eye(G, dtype=bool) if distinct is None else distinct
    diagonal = np.diagonal(K, axis1=-2, axis2=-1)
    low, high = np.where(off, K, np.inf), np.where(off, K, -np.inf)
    return Spread(diagonal.min(-1), diagonal.max(-1), low.min((-2, -1)), high.max((-2, -1)))


def unseen_bound(s: Spread, G: int, A_sum: Array, eta: float) -> Array:
    """Return the upper bound of Theorem 2.4, case 1:

    eta rho_max A_sum / (lambda_min + (G - 1) rho_min)
    """
    return eta * s.rho_max * A_sum / (s.lambda_min + (G - 1) * s.rho_min)


def seen_bound(s: Spread, G: int, N: Array, y: Array, A_sum: Array, eta: float) -> Array:
    """Return the lower bound of Theorem 2.4, case 2:

    eta N (lambda_min - rho_min) / (lambda_max - rho_max)
        (y_k - rho_max A_sum / (lambda_max + (G - 1) rho_max))
    """
    stiff = s.rho_max * A_sum / (s.lambda_max + (G - 1) * s.rho_max)
    return eta * N * (s.lambda_min - s.rho_min) / (s.lambda_max - s.rho_max) * (y - stiff)
