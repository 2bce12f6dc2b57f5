"""Solve rates of a benchmark's problems, fitted so that their pass@k are the printed numbers."""

from collections.abc import Mapping
from functools import cache

import numpy as np
from scipy.optimize import brentq, least_squares
from scipy.special import betaincinv, betaln, expit, logit

# a + b of the Beta where only one k is printed, so that nothing shows how much problems differ: the
# median over the benchmarks for which F-GRPO's Table 1 prints pass@1 and pass@256
SPREAD = 0.66
FEW, MANY = 1e-6, 1 - 1e-6  # the least and the largest rate: neither 0 nor 1
FREE = 60  # rates that are fitted; it takes a tenth of a second
MISSED, MOVED = 0.02, 50.0  # errors in points and moves in logits that weigh the same in the fit
SEED_MOVES = 3.0  # logits: the most that one standard deviation over seeds moves a problem


def beta(passk: Mapping[int, float]) -> tuple[float, float]:
    """Return (a, b) of the Beta whose pass@k, in percent, match `passk` at the smallest and the
    largest k; where there is one k, a + b is SPREAD."""
    first, last = min(passk), max(passk)
    share = {k: float(np.clip(v / 100, 0.001, 0.999)) for k, v in passk.items()}

    def mean(spread: float) -> float:
        """Return the mean of the Beta with a + b = spread."""
        if first == 1:
            return share[1]
        return brentq(lambda m: _passk(m, spread, first) - share[first], 1e-7, 1 - 1e-7)

    def excess(log_spread: float) -> float:
        spread = float(np.exp(log_spread))
        return _passk(mean(spread), spread, last) - share[last]

    low, high = np.log(0.02), np.log(500)
    spread = SPREAD
    if first != last:
        ends = excess(low), excess(high)
        at = brentq(excess, low, high) if ends[0] < 0 < ends[1] else (low if ends[0] >= 0 else high)
        spread = float(np.exp(at))
    return mean(spread) * spread, (1 - mean(spread)) * spread


def _passk(mean: float, spread: float, k: int) -> float:
    a, b = mean * spread, (1 - mean) * spread
    return float(1 - np.exp(betaln(a, b + k) - betaln(a, b)))


@cache
def logits(passk: tuple[tuple[int, float], ...], problems: int) -> np.ndarray:
    """Return the log odds of the solve rates (P,), easiest last. They lie as near to the Beta's
    quantiles as they can while their pass@k are the printed numbers, as far as `problems` rates can
    have these. At most FREE of them are fitted; the others lie on lines between these."""
    a, b = beta(dict(passk))
    free = min(FREE, problems)
    quantiles = betaincinv(a, b, (np.arange(free) + 0.5) / free)
    start = logit(np.clip(quantiles, FEW, MANY))
    ks, wanted = (np.array(part, float) for part in zip(*passk, strict=True))
    at = np.linspace(0, free - 1, problems)
    between = np.array([np.interp(at, np.arange(free), one) for one in np.eye(free)]).T  # (P, free)

    def rates(x: np.ndarray) -> np.ndarray:
        return np.clip(between @ x, -25, 25)

    def apart(x: np.ndarray) -> np.ndarray:
        missed = 100 * _means(rates(x), ks) - wanted
        return np.concatenate([missed / MISSED, (x - start) / MOVED])

    def slopes(x: np.ndarray) -> np.ndarray:
        of_means = 100 * _slopes(rates(x), ks) @ between
        return np.concatenate([of_means / MISSED, np.eye(free) / MOVED])

    return rates(least_squares(apart, start, slopes, max_nfev=200).x)


def _means(x: np.ndarray, ks: np.ndarray) -> np.ndarray:
    """Return pass@k (K,), as shares: the means over problems."""
    return 1 - np.exp(np.log1p(-expit(x))[:, None] * ks).mean(0)


def _slopes(x: np.ndarray, ks: np.ndarray) -> np.ndarray:
    """Return the derivatives (K, P) of each pass@k, a share, by each of the log odds."""
    rate = expit(x)[:, None]
    return (ks * rate * np.exp(ks * np.log1p(-rate))).T / len(x)


def _towards(x: np.ndarray, ks: np.ndarray) -> np.ndarray:
    """Return (P, K): the smallest move of the log odds that moves one pass@k by 1 and no other."""
    slopes = _slopes(x, ks)
    size = np.linalg.norm(slopes, axis=1, keepdims=True) + 1e-12
    unit = slopes / size
    return unit.T @ np.linalg.inv(unit @ unit.T + 1e-7 * np.eye(len(ks))) / size.T


@cache
def of_seed(
    passk: tuple[tuple[int, float], ...], problems: int, sds: tuple[tuple[int, float], ...]
) -> np.ndarray:
    """Return (P, 2): what one standard deviation over seeds adds to `logits`: for the small k and
    for the large one. sds: standard deviations in points, by k; near 0 and 100 percent they are cut
    to half of the way there."""
    x, moved = logits(passk, problems), np.zeros((problems, 2))
    points = dict(sds)
    ks = sorted(points)
    room = {k: min(v, 100 - v) / 2 for k, v in passk}
    sizes = [min(points[k], room[k]) / 100 for k in ks]
    towards = _towards(x, np.array(ks, float)) * sizes
    moved[:, : len(ks)] = np.clip(towards, -SEED_MOVES, SEED_MOVES)
    return moved
