"""The bootstrap over problems, and corrections for multiple tests: Holm, Benjamini-Hochberg."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from common.errors import UserError


def resampled_means(values: np.ndarray, *, draws: int, seed: int) -> np.ndarray:
    """Return means over problems resampled with replacement: values (P, K) -> (draws, K).

    A problem keeps all its samples: each draw takes its value, such as its pass@k. One matrix
    product with how often each problem was drawn gives all means. Raises UserError for no problems
    or NaN.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise UserError(f"values of shape {values.shape}: need (problems, metrics) without NaN")
    problems = len(values)
    drawn = np.random.default_rng(seed).integers(problems, size=(draws, problems))
    slots = drawn + problems * np.arange(draws)[:, None]
    times = np.bincount(slots.ravel(), minlength=draws * problems).reshape(draws, problems)
    return times @ values / problems


def percentile_interval(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the 95 % interval of each column of (draws, K), ignoring NaN; both are NaN
    where all draws are alike, without spread to judge by.

    This plain percentile interval is too short by about sqrt(1 - 1/P) with P problems; with few
    problems prefer an interval with a t distribution (`paired.two_way_interval`).
    """
    least, most = np.nanmin(means, axis=0), np.nanmax(means, axis=0)
    alike = most - least <= 1e-9 * np.abs(most)  # only rounding
    low, high = np.where(alike, np.nan, np.nanpercentile(means, [2.5, 97.5], axis=0))
    return low, high


def wilson_interval(share: ArrayLike, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95 % interval of a share in [0, 1] of n trials (Wilson 1927). It has a width where
    all or none succeed: none of 30 gives 0 to 0.114."""
    share, z = np.asarray(share, dtype=float), 1.959964
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return (middle - half).clip(0, share), (middle + half).clip(share, 1)


def holm(p: Sequence[float]) -> np.ndarray:
    """Return p-values adjusted for testing all of them (Holm 1979), in the order given.

        p_(1) <= ... <= p_(m):  adjusted_(i) = max_{j <= i} min(1, (m - j + 1) p_(j))

    Rejecting where the adjusted p is below 0.05 keeps the chance of any false rejection below 0.05,
    however the tests depend on each other. Missing values count as no test and stay missing. Raises
    UserError for a p outside 0..1. statsmodels is not used: it collects garbage in every call,
    which takes a third of a second in a process with many objects.
    """

    def stepped(given: np.ndarray) -> np.ndarray:
        order = np.argsort(given)
        adjusted = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1)).clip(max=1)
        return adjusted[np.argsort(order)]

    return _adjusted(p, stepped)


def benjamini_hochberg(p: Sequence[float]) -> np.ndarray:
    """Return p-values adjusted for the false discovery rate (Benjamini and Hochberg 1995), in the
    order given.

        p_(1) <= ... <= p_(m):  adjusted_(i) = min_{j >= i} min(1, (m / j) p_(j))

    At most 5 % of the findings with an adjusted p below 0.05 are expected to be false, for tests
    that are independent or positively dependent. Missing values count as no test and stay missing.
    Raises UserError for a p outside 0..1. scipy.stats has this function, but takes a second to
    load.
    """

    def stepped(given: np.ndarray) -> np.ndarray:
        order, m = np.argsort(given), len(given)
        scaled = given[order] * (m / np.arange(1, m + 1))
        adjusted = np.minimum.accumulate(scaled[::-1])[::-1].clip(max=1)
        return adjusted[np.argsort(order)]

    return _adjusted(p, stepped)


def _adjusted(p: Sequence[float], correction: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    p = np.asarray(p, dtype=float)
    given = ~np.isnan(p)
    if ((p[given] < 0) | (p[given] > 1)).any():
        raise UserError(f"p={p.tolist()}: each must lie in 0..1")
    adjusted = np.full(p.shape, np.nan)
    if given.any():
        adjusted[given] = correction(p[given])
    return adjusted
