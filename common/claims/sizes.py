"""Claims about a size ("~") and a level (a range), which say that a number is near another. On a
laptop the claim states the bounds of the interval. On a cluster they come from noise: of the
printed number, which is from one run, and of the rerun."""

from dataclasses import replace

from common.claims.gaps import Gap
from common.claims.single import KNOWN
from common.metrics.paired import Interval, two_way_interval

Z = 1.96


def inside(gap: Gap, low: float, high: float) -> str:
    """Return the verdict on a level; on a cluster the printed number's noise widens the bounds."""
    slack = 0 if gap.noise is None else Z * gap.noise**0.5
    return _inside(gap.interval, low - slack, high + slack)


def near(gap: Gap, value: float, within: float | None) -> str:
    """Return the verdict on a size. On a laptop the interval must lie `within` of the value. On a
    cluster the claim fails where the printed value is farther from the rerun's than two such runs
    are from each other (95 %). Else it holds if the rerun's value lies beyond half of the printed
    one (p < 0.05), and is inconclusive if not."""
    if gap.noise is None:
        return _inside(gap.interval, value - within, value + within)
    rerun = gap.interval.value
    slack = Z * (gap.noise * (1 + 1 / gap.seeds)) ** 0.5 + (within or 0)
    if abs(rerun - value) > slack + 1e-9:
        return "fails"
    there = gap.interval.p(value / 2) < 0.05 and (rerun - value / 2) * value > 0
    return "holds" if there else "inconclusive"


def level(gap: Gap) -> Gap:
    """Return the gap of a range; on a cluster, with the printed problems, an interval over runs."""
    if gap.noise is None:
        return gap
    if gap.single:
        stderr = (gap.noise / gap.seeds) ** 0.5
        return replace(gap, interval=Interval(gap.interval.value, stderr, KNOWN), parts=())
    runs = tuple(w * x.values[:, None] for w, x in gap.terms if x.seeds is not None)
    interval = two_way_interval(*runs, assumed=gap.noise)
    interval = replace(interval, value=gap.interval.value)
    return replace(gap, interval=interval, parts=runs, strata=None)


def _inside(interval: Interval, low: float, high: float) -> str:
    below, above = interval.bounds()
    if below >= low - 1e-9 and above <= high + 1e-9:
        return "holds"
    return "fails" if below > high + 1e-9 or above < low - 1e-9 else "inconclusive"
