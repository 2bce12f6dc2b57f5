"""Claims of a size ("~") and of a level (a range): not tested against a number, but near one.

On a laptop an interval has to lie inside bounds that the claim states. On a cluster the bounds are
the noise: that of the printed number, which is of one run, and that of the rerun.
"""

from dataclasses import replace

import numpy as np

from common.claims.gaps import Gap
from common.claims.single import KNOWN
from common.metrics.paired import Interval, two_way_interval

Z = 1.96


def side(gap: Gap, form: str, body: dict) -> str:
    """holds, fails or inconclusive."""
    if gap.noise is None:
        return _inside(gap.interval, *_bounds(body))
    if form == "range":
        slack = Z * gap.noise.variance**0.5  # the printed number's own
        low, high = body.get("low", -np.inf) - slack, body.get("high", np.inf) + slack
        return _inside(gap.interval, low, high)
    return _size(gap, body["value"])


def level(gap: Gap) -> Gap:
    """The gap of a range on a cluster, whose problems are the printed number's: the interval is
    over runs alone."""
    if gap.noise is None:
        return gap
    if gap.single:
        stderr = (gap.noise.variance / gap.seeds) ** 0.5
        return replace(gap, interval=Interval(gap.interval.value, stderr, KNOWN), parts=())
    runs = tuple(w * x.values[:, None] for w, x in gap.terms if x.seeds is not None)
    interval = two_way_interval(*runs)
    interval = replace(interval, value=gap.interval.value)
    return replace(gap, interval=interval, parts=runs, strata=None)


def _size(gap: Gap, printed: float) -> str:
    """It fails where the printed value is farther from the rerun's than two such runs are from each
    other, and holds where it is not and the rerun's effect is there, on the printed side."""
    value = gap.interval.value
    if abs(value - printed) > Z * (gap.noise.variance * (1 + 1 / gap.seeds)) ** 0.5 + 1e-9:
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
