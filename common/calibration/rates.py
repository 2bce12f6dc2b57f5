"""Solve rates of a benchmark's problems whose pass@k are the printed numbers."""

from collections.abc import Mapping
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, betaln, expit, logit

# a + b of the Beta where one k is printed, so that nothing says how far the problems differ: the
# median of the benchmarks of which F-GRPO's Table 1 prints pass@1 and pass@256
SPREAD = 0.66
FEW, MANY = 1e-6, 1 - 1e-6  # the rates that are told apart from 0 and 1
SEED_MOVES = 3.0  # logits: the most that one standard deviation over seeds moves a problem


def beta(passk: Mapping[int, float]) -> tuple[float, float]:
    """The Beta whose pass@k, in percent, are those of the smallest and the largest k; with the
    stated SPREAD where there is one k."""
    first, last = min(passk), max(passk)
    share = {k: float(np.clip(v / 100, 0.001, 0.999)) for k, v in passk.items()}

    def mean(spread: float) -> float:
        """With a + b = spread."""
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
    """Log odds of the rates (P,), easiest last: the Beta's quantiles, and of all rates with the
    printed pass@k those that are nearest to them."""
    a, b = beta(dict(passk))
    quantiles = betaincinv(a, b, (np.arange(problems) + 0.5) / problems)
    x = logit(np.clip(quantiles, FEW, MANY))
    ks, wanted = (np.array(part, float) for part in zip(*passk, strict=True))
    for _ in range(100):
        gap = wanted / 100 - _means(x, ks)
        if abs(gap).max() < 1e-7:
            break
        step = _towards(x, ks) @ gap
        x = np.clip(x + step * min(1, 2 / max(abs(step).max(), 1e-12)), -25, 25)
    return x


def _means(x: np.ndarray, ks: np.ndarray) -> np.ndarray:
    """pass@k (K,), a share."""
    return 1 - np.exp(np.log1p(-expit(x))[:, None] * ks).mean(0)


def _towards(x: np.ndarray, ks: np.ndarray) -> np.ndarray:
    """(P, K): the shortest change of the log odds that moves one pass@k by 1 and no other."""
    rate = expit(x)[:, None]
    slopes = (ks * rate * np.exp(ks * np.log1p(-rate))).T / len(x)  # (K, P)
    size = np.linalg.norm(slopes, axis=1, keepdims=True) + 1e-12
    unit = slopes / size
    return unit.T @ np.linalg.inv(unit @ unit.T + 1e-7 * np.eye(len(ks))) / size.T


@cache
def of_seed(
    passk: tuple[tuple[int, float], ...], problems: int, sds: tuple[tuple[int, float], ...]
) -> np.ndarray:
    """(P, 2): what one standard deviation over seeds adds to `logits`, of the small k and of the
    large one. sds: points, by k. Near 0 and 100 it is at most half the way there."""
    x, moved = logits(passk, problems), np.zeros((problems, 2))
    points = dict(sds)
    ks = sorted(points)
    room = {k: min(v, 100 - v) / 2 for k, v in passk}
    sizes = [min(points[k], room[k]) / 100 for k in ks]
    towards = _towards(x, np.array(ks, float)) * sizes
    moved[:, : len(ks)] = np.clip(towards, -SEED_MOVES, SEED_MOVES)
    return moved
