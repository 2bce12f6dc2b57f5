"""Claims about a size ("~") and about a level (a range). They say that a number is near another
one, so they are not tested against it.

On a laptop the interval must lie inside bounds that the claim states. On a cluster the bounds come
from noise: that of the printed number, which is from one run, and that of the rerun.
"""

from dataclasses import replace

import numpy as np

from common.claims.gaps import Gap
from common.claims.single import KNOWN
from common.metrics.paired import Interval, two_way_interval

Z = 1.96


def side(gap: Gap, form: str, body: dict) -> str:
    """Return "holds", "fails" or "inconclusive" for the gap of such a claim."""
    if gap.noise is None:
        return _inside(gap.interval, *_bounds(body))
    if form == "range":
        slack = Z * gap.noise**0.5  # noise of the printed number
        low, high = body.get("low", -np.inf) - slack, body.get("high", np.inf) + slack
        return _inside(gap.interval, low, high)
    return _size(gap, body["value"])


def level(gap: Gap) -> Gap:
    """Return the gap of a range. On a cluster its interval is over runs only, because the problems
    are the same as those behind the printed number."""
    if gap.noise is None:
        return gap
    if gap.single:
        stderr = (gap.noise / gap.seeds) ** 0.5
        return replace(gap, interval=Interval(gap.interval.value, stderr, KNOWN), parts=())
    runs = tuple(w * x.values[:, None] for w, x in gap.terms if x.seeds is not None)
    interval = two_way_interval(*runs)
    interval = replace(interval, value=gap.interval.value)
    return replace(gap, interval=interval, parts=runs, strata=None)


def _size(gap: Gap, printed: float) -> str:
    """Return the verdict on a size. It fails where the printed value is farther from the rerun's
    than two such runs are from each other (95 %). Otherwise it holds if the rerun's value differs
    from 0 (p < 0.05) and has the printed sign, and is inconclusive if not."""
    value = gap.interval.value
    if abs(value - printed) > Z * (gap.noise * (1 + 1 / gap.seeds)) ** 0.5 + 1e-9:
        return "fails"
    there = gap.interval.p(0) < 0.05 and value * printed > 0
    return "holds" if there else "inconclusive"


def _bounds(body: dict) -> tuple[float, float]:
    within = body.get("within", 0)
    low = body.get("low", body.get("value", -np.inf) - within)
    return low, body.get("high", body.get("value", np.inf) + within)


def _inside(interval: Interval, low: float, high: float) -> str:
    below, above = interval.bounds()
    if below >= low - 1e-9 and above <= high + 1e-9:
        return "holds"
    return "fails" if below > high + 1e-9 or above < low - 1e-9 else "inconclusive"
