"""The third edition's comparisons: areas between frontiers.

A run's frontier is its diversity as a function of how far its pass@1 has risen above its own base
model's, read where it first rises so far, linearly between checkpoints. Its area is the mean over
the levels, +2 to +10 points. The same is read at equal loss of entropy and at equal divergence from
the base model. A level that a run does not reach is missing, and so is one that it reaches before
its first checkpoint: on the chord from the base model nothing was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from common.claims.gaps import MIN_SEEDS
from common.comparison.matched import ACCURACY, first_reach, interpolated
from common.metrics.bootstrap import holm
from common.metrics.paired import Interval, two_way_interval
from common.yardstick.ranking import Curve
from common.yardstick.third import (
    DEV,
    EQUAL_ACCURACY,
    EQUAL_ENTROPY,
    FASTEST,
    GRPO,
    LEAST_LEVELS,
    MARGIN,
    PRIMARY,
    READ,
    Third,
    methods,
)

Runs = dict[int, Curve]  # of one method at one rate, by seed
BEST, SAME, OWN = "best rates", "same rate", "GRPO's rates"
COLUMNS = [
    *["reading", "equal", "benchmark", "metric", "method", "rate", "against", "from", "to"],
    *["difference", "difference_low", "difference_high", "p", "p_holm", "verdict"],
    *["n_levels", "n_seeds", "reliability"],
]
SPLITS = 200  # of the seeds into halves


def travelled(curve: Curve, equal: str, split: str = "") -> np.ndarray:
    """How far a run is from its base model at each checkpoint, (T,): points of pass@1, percent of
    the entropy lost, or nats."""
    benchmark, metric = split + ACCURACY[0], ACCURACY[1]
    if equal == EQUAL_ACCURACY:
        x = curve.mean((benchmark, metric))
        return x - x[0]
    if equal == EQUAL_ENTROPY:
        x = curve.mean((benchmark, "token_entropy"))
        return 100 * (1 - x / x[0])
    return curve.mean((benchmark, "kl_from_start"))


def reading(
    curve: Curve, equal: str, level: float, measure: tuple[str, str], split: str = ""
) -> np.ndarray | None:
    """The measure where the run first travelled so far, (problems,); None where it never did, or
    did so before its first checkpoint."""
    place = first_reach(travelled(curve, equal, split), level)
    if place is None or place[0] == 0 or (place[0] == 1 and place[1] < 1):
        return None
    return interpolated(curve.values[split + measure[0], measure[1]], place)


def areas(
    groups: Sequence[Runs],
    equal: str,
    levels: Sequence[float],
    measure: tuple[str, str],
    split: str = "",
) -> tuple[list[dict[int, np.ndarray]], list[float]]:
    """(each group's areas by seed, (problems,) each; the levels that they are the mean over).

    The levels are those that every run of every group has; areas are empty where there is none."""
    read = [
        {s: {level: reading(c, equal, level, measure, split) for level in levels}
         for s, c in runs.items()}
        for runs in groups
    ]  # fmt: skip
    every = [one for runs in read for one in runs.values()]
    shared = [level for level in levels if all(one[level] is not None for one in every)]
    if not every or not shared:
        return [{} for _ in groups], []
    return [
        {s: np.mean([one[level] for level in shared], axis=0) for s, one in runs.items()}
        for runs in read
    ], shared


def chosen_rate(by_rate: dict[str, Runs], levels: Sequence[float]) -> str | None:
    """The rate with the largest area on the dev prompts, of those that read enough levels there,
    over the levels that all of these read; None where no rate does."""

    def read(rates: list[str]) -> tuple[list[dict[int, np.ndarray]], list[float]]:
        return areas([by_rate[rate] for rate in rates], EQUAL_ACCURACY, levels, PRIMARY, DEV)

    able = [rate for rate in by_rate if len(read([rate])[1]) >= LEAST_LEVELS]
    found, shared = read(able)
    if not shared:
        return max(able, key=lambda rate: len(read([rate])[1]), default=None)
    means = [np.mean([one.mean() for one in runs.values()]) for runs in found]
    return able[int(np.argmax(means))]


def verdict(interval: Interval | None, p_holm: float, metric: str) -> str:
    """better or worse at a corrected p < 0.05, equivalent where the 95 % interval lies within the
    margin, else undecided; the margin is in points of pass@k."""
    if interval is None:
        return "not read"
    if p_holm < 0.05:
        return "better" if interval.value > 0 else "worse"
    within = max(map(abs, interval.bounds())) < MARGIN
    return "equivalent" if within and metric.startswith("pass@") else "undecided"


def compare(
    pairs: dict[str, tuple[Runs, Runs]],
    equal: str,
    levels: Sequence[float],
    measure: tuple[str, str],
) -> pd.DataFrame:
    """A row each of `pairs`, of the first minus the second on their shared seeds, corrected
    together (Holm), with the split-half reliability of their order."""
    rows, intervals, gaps = [], [], []
    for name, (a, b) in pairs.items():
        seeds = sorted(set(a) & set(b))
        both = [{s: runs[s] for s in seeds} for runs in (a, b)]
        (first, second), shared = areas(both, equal, levels, measure)
        row = {"method": name, "n_seeds": len(seeds), "n_levels": len(shared)}
        interval = None
        if len(shared) >= LEAST_LEVELS and len(seeds) >= MIN_SEEDS:
            gap = np.stack([first[s] - second[s] for s in seeds])
            interval = two_way_interval(gap)
            row |= {"from": shared[0], "to": shared[-1], "difference": interval.value}
            low, high = interval.bounds()
            row |= {"difference_low": low, "difference_high": high, "p": interval.p()}
            gaps.append(dict(zip(seeds, gap.mean(axis=1), strict=True)))
        rows.append(row)
        intervals.append(interval)
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame["p_holm"] = holm(frame["p"].to_numpy(float))
    both = zip(intervals, frame["p_holm"], strict=True)
    frame["verdict"] = [verdict(one, p, measure[1]) for one, p in both]
    frame["equal"], (frame["benchmark"], frame["metric"]) = equal, measure
    frame["reliability"] = reliability(gaps)
    return frame


def reliability(gaps: Sequence[dict[int, float]]) -> float:
    """How well half of the seeds tells the order that the other half gives: the mean rank
    correlation over random halves, by Spearman and Brown's formula for all seeds. NaN for fewer
    than three methods or four seeds that all of them share."""
    seeds = sorted(set.intersection(*(set(one) for one in gaps))) if gaps else []
    if len(gaps) < 3 or len(seeds) < 4:
        return np.nan
    values, rng = np.array([[one[s] for s in seeds] for one in gaps]), np.random.default_rng(0)
    halves = np.argsort(rng.random((SPLITS, len(seeds))), axis=1) < len(seeds) // 2  # (SPLITS, S)
    ranks = [
        rankdata(values @ half.T / half.sum(axis=1), axis=0) for half in (halves, ~halves)
    ]  # (methods, SPLITS) each
    a, b = (one - one.mean(axis=0) for one in ranks)
    spread = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    if not spread.all():  # all are equal
        return np.nan
    r = float(np.mean((a * b).sum(axis=0) / spread))
    return 2 * r / (1 + r) if r > 0 else r


def rank(drawn: Sequence[Curve], edition: Third) -> pd.DataFrame:
    """COLUMNS: each method at its best rate against GRPO at its own best, which is the test; each
    at GRPO's rate; and GRPO's rates against its fastest, the positive control."""
    groups: dict[str, dict[str, Runs]] = {}
    for c in drawn:
        groups.setdefault(c.method, {}).setdefault(c.rate, {})[c.seed] = c
    levels = edition.levels[EQUAL_ACCURACY]
    best = {name: chosen_rate(groups[name], levels) for name in (GRPO, *methods(list(groups)))}
    theirs = best.pop(GRPO)
    if theirs is None:
        return pd.DataFrame(columns=COLUMNS)
    pairs = {
        name: (groups[name][rate] if rate else {}, groups[GRPO][theirs])
        for name, rate in best.items()
    }
    frames = []
    for equal, measures in READ.items():
        for measure in measures:
            found = compare(pairs, equal, edition.levels[equal], measure)
            rates = found["method"].map(best)
            frames.append(found.assign(reading=BEST, rate=rates, against=theirs))
    for rate, runs in groups[GRPO].items():
        same = {
            name: (by_rate[rate], runs)
            for name, by_rate in groups.items()
            if name in best and rate in by_rate
        }
        found = compare(same, EQUAL_ACCURACY, levels, PRIMARY)
        frames.append(found.assign(reading=SAME, rate=rate, against=rate))
    if fastest := groups[GRPO].get(FASTEST):
        slower = {rate: (runs, fastest) for rate, runs in groups[GRPO].items() if rate != FASTEST}
        for measure in (PRIMARY, ("natural", "pass@64")):
            found = compare(slower, EQUAL_ACCURACY, levels, measure)
            named = {"reading": OWN, "rate": found["method"], "against": FASTEST, "method": GRPO}
            frames.append(found.assign(**named))
    return pd.concat(frames, ignore_index=True)[COLUMNS]
