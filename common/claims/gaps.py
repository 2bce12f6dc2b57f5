"""One comparison behind a verdict (a Gap): its interval, its table row and its text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from common.claims.select import Found, on_all_problems
from common.claims.single import run_noise, single_interval
from common.metrics.paired import Interval, two_way_interval
from common.metrics.passk import estimator

MIN_SEEDS = 3  # two_way_interval is too narrow with two
GAPS = [  # columns of the table of comparisons; `of`: of how many others it is the mean
    *["claim", "scope", "family", "of", "table", "benchmark", "metric", "a", "b", "difference"],
    *["low", "high", "p", "p_claim", "p_holm", "p_bh", "mdd", "n_seeds", "n_problems"],
    *["verdict", "test"],
]
# Values of `Gap.test`: what decides a comparison.
NUMBERS = "numbers"
SEEDS, BOTH = "seeds", "seeds and problems"
SINGLE, ALONE = "single run, over problems and seeds", "single run, over samples and seeds"


@dataclass(frozen=True)
class Gap:
    """One comparison of a claim: a weighted sum of the values that its selectors found."""

    terms: tuple[tuple[float, Found], ...]
    interval: Interval  # NaN standard error where there are too few seeds
    parts: tuple[np.ndarray, ...] = ()  # the interval's data, each (S, P) or (S, 1)
    strata: tuple | None = None
    single: bool = False  # fewer than MIN_SEEDS seeds: their spread is taken from elsewhere
    assumed: float | None = None  # as in `combine`

    @cached_property
    def noise(self) -> float | None:
        """The variance of one further run of it on a cluster; None elsewhere."""
        return None if self.assumed is None else sum(run_noise(self.terms, self.assumed))

    @property
    def seeds(self) -> int:
        """The number of runs of the side that has the fewest; 0 without random numbers."""
        return min((len(x.seeds) for _, x in self.terms if x.seeds is not None), default=0)

    @property
    def idle(self) -> bool:
        """Whether both sides agree everywhere, other than at a floor or ceiling."""
        known = [x for _, x in self.terms if x.seeds is not None]
        if len(known) < 2 or self.single or not self.parts:
            return False
        same = not any(part.any() for part in self.parts)
        return same and not all(np.isin(x.values, (0, 100)).all() for x in known)

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the 95 % interval, cut where a share would leave 0..100 %."""
        shares = all(estimator(str(m)) for _, x in self.terms for m in x.metrics)
        if shares and [weight for weight, _ in self.terms] == [1, -1]:
            return self.interval.of_difference(float(self.terms[1][1].values.mean()))
        return self.interval.ends()

    @property
    def test(self) -> str:
        """What its interval and p-value are over: NUMBERS, SEEDS, BOTH, SINGLE or ALONE."""
        if all(x.seeds is None for _, x in self.terms):
            return NUMBERS
        if self.single:
            return SINGLE if self.parts else ALONE
        return BOTH if self.strata else SEEDS

    @property
    def table(self) -> str:
        """The names of its tables; "TABLE, A vs B at READING" of several pairs is one."""
        tables = (str(table) for _, one in self.terms for table in one.tables)
        names = {re.sub(", .* vs .* at ", ", at ", table) for table in tables}
        return " and ".join(sorted(names))


def on_shared_seeds(values: list[Found]) -> list[Found]:
    """Return the values at their shared seeds, or unchanged below MIN_SEEDS of these."""
    random = [set(x.seeds) for x in values if x.seeds is not None]
    shared = sorted(set.intersection(*random)) if random else []
    if len(shared) < MIN_SEEDS:
        return values
    return [x if x.seeds is None else x.at(shared) for x in values]


def combine(terms: Sequence[tuple[float, Found]], *, assumed: float | None = None) -> Gap:
    """Return the weighted sum of the found values with its interval: over seeds, and over problems
    where there are counts.

    assumed: on a cluster, what the assumed spread over seeds is multiplied by; None on a laptop. It
    is used below MIN_SEEDS seeds (`single_interval`), above the spread is drawn towards it.
    """
    terms = tuple(terms)
    value = sum(weight * x.values.mean() for weight, x in terms)
    random = [(weight, x) for weight, x in terms if x.seeds is not None]
    if not random:
        return Gap(terms, Interval(value, 0.0, 1.0))
    seeds = min(len(x.seeds) for _, x in random)
    few = seeds < MIN_SEEDS
    if few and assumed is None:
        return Gap(terms, Interval(value, np.nan, np.nan))
    values, strata = on_all_problems([x for _, x in random])
    summed = {}
    for (weight, x), of in zip(random, values, strict=True) if strata or not few else ():
        summed[x.seeds] = summed.get(x.seeds, 0) + weight * of
    parts = tuple(summed.values())
    if few:
        interval = single_interval(value, terms, parts, strata, seeds, assumed)
    else:
        noise = None if assumed is None else sum(run_noise(terms, assumed))
        interval = two_way_interval(*parts, strata=strata, assumed=noise)
    whole = replace(interval, value=value)
    return Gap(terms, whole, parts, strata, few, assumed)


def row(gap: Gap, null: float | None) -> dict:
    """Return the columns GAPS of one comparison, without the columns of its claim."""
    values = [x for _, x in gap.terms]
    sides = [" and ".join(x.name for w, x in gap.terms if (w > 0) == up) for up in (True, False)]
    shown = {"table": gap.table, "a": sides[0], "b": sides[1], "difference": gap.interval.value}
    for name in ("benchmark", "metric"):
        every = dict.fromkeys(str(one) for x in values for one in getattr(x, f"{name}s"))
        shown[name] = "; ".join(every)
    seeds = [len(x.seeds) for x in values if x.seeds is not None]
    shown["n_seeds"] = min(seeds) if seeds else np.nan
    shown["n_problems"] = len(gap.strata) if gap.strata else np.nan
    shown["test"] = gap.test
    if not gap.parts and not gap.single:
        return shown
    shown["low"], shown["high"] = gap.ends
    shown["p"] = np.nan if null is None else gap.interval.p(null)
    if np.isclose(sum(weight for weight, _ in gap.terms if weight > 0), 1):  # not a slope
        shown["mdd"] = gap.interval.detectable()
    return shown


def order_text(gaps: list[Gap]) -> str:
    """Return the numbers of a chain of differences a - b, b - c, ... as text."""
    selected = [gaps[0].terms[0][1], *(gap.terms[1][1] for gap in gaps)]
    singles = [combine([(1, x)], assumed=gaps[0].assumed).interval for x in selected]
    if all(x.seeds is None for x in selected):
        values = [g.interval.value for g in gaps]
        signs = ["=" if abs(v) < 1e-9 else ">" if v > 0 else "<" for v in values]
        rest = [f" {sign} {x.value:.4g}" for sign, x in zip(signs, singles[1:], strict=True)]
        return f"{singles[0].value:.4g}" + "".join(rest)
    values = [f"{x.value:.4g}" + (f" ± {x.stderr:.2g}" if x.stderr > 0 else "") for x in singles]
    differences = ", ".join(f"diff {interval_text(gap.interval)}" for gap in gaps)
    seeds = dict.fromkeys(str(len(x.seeds)) for x in selected if x.seeds is not None)
    problems = {x.problems and len(x.problems) for x in selected} - {None}
    size = f"{' and '.join(seeds)} seeds" + (f" x {max(problems)} problems" if problems else "")
    return f"{' vs '.join(values)}, {differences}, {size}"


def power_text(gaps: list[Gap]) -> str:
    """Return, as text, the differences that such data would show in 80 % of repetitions."""
    known = [gap for gap in gaps if gap.parts or gap.single]
    power = [gap.interval.detectable() for gap in known if gap.interval.stderr > 0]
    if len(power) > 4:  # a count of many pairs
        return f", detectable {min(power):.2g} to {max(power):.2g}"
    return f", detectable {', '.join(f'{x:.2g}' for x in power)}" if power else ""


def interval_text(interval: Interval) -> str:
    if interval.stderr == 0:
        return f"{interval.value:.4g}"
    if np.isnan(interval.stderr):
        return f"{interval.value:.4g} (fewer than {MIN_SEEDS} seeds)"
    low, high = interval.bounds()
    return f"{interval.value:.3g} [{low:.3g}, {high:.3g}]"
