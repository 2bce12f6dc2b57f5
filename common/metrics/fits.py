"""Shapes of pass@k curves and of solve rates (FADE sec 12): a shifted power law, Beta mixtures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import betaln, gammaln

from common.errors import UserError

SHIFTS = np.array([0.0, 0.3, 1, 3, 10, 30, 100])  # shifts of k that the fits start from
LIMITS = np.array([[-12.0, -7, -4], [25, 3, 7]])  # least and largest log a, log b, log(1 + c)


def power_law(k: ArrayLike, a: float, b: float, c: float) -> np.ndarray:
    """Return G(k) = exp(-a (k + c)^-b): FADE's shifted power law, with its k_0 called c."""
    return np.exp(-a * (np.asarray(k, dtype=float) + c) ** -b)


def fit_power_law(ks: Sequence[int], curves: np.ndarray, iterations: int = 300) -> np.ndarray:
    """Return (a, b, c) of each curve, (B, K) in [0, 1] -> (B, 3), by least squares in pass@k.

    As in FADE sec 12.2, each k counts the same. Levenberg-Marquardt runs on log a, log b and
    log(1 + c) for all curves at once, from the best line log(-log G) over log(k + c) for a few
    shifts c > -1. A curve near exp(-a e^(-k/d)) drives all three to their limits; one that is 0 or
    1 throughout has no shape and gives NaN. Raises UserError for fewer than 4 different k: 3 points
    do not test three parameters.
    """
    ks, curves = np.asarray(ks, dtype=float), np.atleast_2d(np.asarray(curves, dtype=float))
    if len(set(ks.tolist())) < 4:
        raise UserError(f"k={ks.tolist()}: a shifted power law needs at least 4 different k")
    theta = _starts(ks, curves)
    value, jacobian = _model(ks, theta)
    error = ((value - curves) ** 2).sum(axis=1)
    damping, calm = np.full(len(curves), 1e-3), np.zeros(len(curves), dtype=int)
    for _ in range(iterations):
        normal = jacobian.transpose(0, 2, 1) @ jacobian
        slope = np.einsum("bkp,bk->bp", jacobian, value - curves)
        scale = np.einsum("bpp->bp", normal)
        damped = normal + (damping[:, None] * scale + 1e-15)[:, :, None] * np.eye(3)
        step = np.linalg.solve(damped, slope[:, :, None])[:, :, 0]
        tried = np.clip(theta - np.clip(step, -2, 2), *LIMITS)
        new_value, new_jacobian = _model(ks, tried)
        new_error = ((new_value - curves) ** 2).sum(axis=1)
        better = new_error < error
        calm = np.where(better & (error - new_error > 1e-9 * error), 0, calm + 1)
        theta = np.where(better[:, None], tried, theta)
        value = np.where(better[:, None], new_value, value)
        jacobian = np.where(better[:, None, None], new_jacobian, jacobian)
        error = np.where(better, new_error, error)
        damping = np.clip(damping * np.where(better, 0.2, 5), 1e-9, 1e9)
        if (calm >= 12).all():
            break
    fitted = np.exp(theta)
    fitted[:, 2] -= 1
    flat = (curves <= 0).all(axis=1) | (curves >= 1).all(axis=1)
    fitted[flat] = np.nan
    return fitted


def _model(ks: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return G (B, K) and its derivatives by log a, log b, log(1 + c), (B, K, 3)."""
    log_a, log_b, log_c = (part[:, None] for part in theta.T)
    b, shifted = np.exp(log_b), ks + np.expm1(log_c)
    log_k = np.log(shifted)
    u = np.exp(np.minimum(log_a - b * log_k, 700))
    value = np.exp(-u)
    by_u = -value * u
    return value, np.stack([by_u, -by_u * b * log_k, -by_u * b / shifted * np.exp(log_c)], axis=2)


def _starts(ks: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Return the best of a few weighted lines log(-log G) = log a - b log(k + c), (B, 3)."""
    y = np.clip(curves, 1e-6, 1 - 1e-6)[:, None, :]
    z, weight = np.log(-np.log(y)), (y * np.log(y)) ** 2
    x = np.broadcast_to(np.log(ks + SHIFTS[:, None]), (len(curves), len(SHIFTS), len(ks)))
    total = weight.sum(axis=2, keepdims=True)
    x_mean = (weight * x).sum(axis=2, keepdims=True) / total
    z_mean = (weight * z).sum(axis=2, keepdims=True) / total
    spread = (weight * (x - x_mean) ** 2).sum(axis=2)
    b = np.maximum(-(weight * (x - x_mean) * (z - z_mean)).sum(axis=2) / spread, 1e-3)
    log_a = z_mean[:, :, 0] + b * x_mean[:, :, 0]
    log_c = np.broadcast_to(np.log1p(SHIFTS), b.shape)
    theta = np.clip(np.stack([log_a, np.log(b), log_c], axis=2), *LIMITS)
    value, _ = _model(ks, theta.reshape(-1, 3))
    error = ((value.reshape(x.shape) - curves[:, None, :]) ** 2).sum(axis=2)
    return theta[np.arange(len(curves)), error.argmin(axis=1)]


@dataclass(frozen=True)
class BetaMixture:
    """Solve rates drawn from sum_i weight_i Beta(a_i, b_i), ordered by rising mean a/(a+b)."""

    weight: np.ndarray
    a: np.ndarray
    b: np.ndarray

    def pmf(self, n: int) -> np.ndarray:
        """Return P(x of n samples are right) for x = 0..n: a mixture of BetaBin(n, a_i, b_i)."""
        x = np.arange(n + 1)[:, None]
        log_choose = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
        log_p = log_choose + betaln(x + self.a, n - x + self.b) - betaln(self.a, self.b)
        return np.exp(log_p) @ self.weight


def fit_beta(share: ArrayLike, *, components: int = 1) -> BetaMixture:
    """Fit BetaBin(n, a, b), or a mixture of two, by least squares (FADE Fig. 10) to the share of
    problems with 0, 1, ..., n of n samples right, (n + 1,). A mixture starts from a hard and an
    easy component. Raises UserError if all problems have 0 right, or all n: that determines no
    shape."""
    share = np.asarray(share)
    n = len(share) - 1
    if share[0] >= 1 or share[n] >= 1:
        raise UserError(f"{share.tolist()}: all problems have c=0, or c=n={n}: no shape to fit")

    def loss(theta: np.ndarray) -> float:
        return 1e4 * float(np.square(_mixture(theta).pmf(n) - share).sum())

    mean = share @ np.arange(n + 1) / n
    starts = [np.log([mean, 1 - mean]), np.log([0.3 * mean, 0.3 * (1 - mean)])]
    if components == 2:
        odds = np.log(mean / (1 - mean))
        starts = [np.append(np.log([0.5, 5, 5, 0.5]), -odds), np.append(np.log([1, 9, 2, 2]), 0.0)]
    limits = [(-7, 7)] * (2 * components) + [(-8, 8)] * (components - 1)
    fits = [minimize(loss, np.clip(s, -7, 7), method="L-BFGS-B", bounds=limits) for s in starts]
    return _mixture(min(fits, key=lambda one: one.fun).x)


def _mixture(theta: np.ndarray) -> BetaMixture:
    """Return the mixture of (log a, log b), or of (log a_1, log b_1, log a_2, log b_2, log odds of
    component 1)."""
    shapes = np.exp(theta[: len(theta) // 2 * 2])
    a, b = shapes[0::2], shapes[1::2]
    if len(a) == 1:
        return BetaMixture(np.ones(1), a, b)
    first = 1 / (1 + np.exp(-theta[4]))
    weight, order = np.array([first, 1 - first]), np.argsort(a / (a + b))
    return BetaMixture(weight[order], a[order], b[order])
