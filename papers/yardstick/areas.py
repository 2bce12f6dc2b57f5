"""The comparisons: areas between frontiers.

A run's frontier is its diversity as a function of how far its pass@1 has risen above the pass@1 of
its own base model. It is read where the run first rises so far, linearly between checkpoints. The
run's area is the mean of its frontier over the levels, +2 to +16 points. The same is read at equal
loss of entropy and at equal divergence from the base model. A level that a run does not reach is
missing. So is a level that it reaches before its first checkpoint, since nothing was measured
between that and the base model. The last checkpoint is no point of a frontier, since it has more
samples per problem than the others.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from common.claims.gaps import MIN_SEEDS
from common.comparison.matched import ACCURACY, first_reach, interpolated
from common.metrics.bootstrap import holm
from common.metrics.paired import Interval, two_way_interval
from papers.yardstick.curves import Curve
from papers.yardstick.protocol import (
    AS_FIRST_DECLARED,
    BEST,
    DEV,
    DISTINCT,
    EQUAL_ACCURACY,
    EQUAL_ENTROPY,
    FASTEST,
    GRPO,
    LEAST_LEVELS,
    LEVELS,
    MARGIN,
    NEXT,
    OWN,
    PASS64,
    PRIMARY,
    READ,
    SAME,
    methods,
    speed,
)

Runs = dict[int, Curve]  # seed -> run, for one method at one learning rate
COLUMNS = [
    *["reading", "equal", "benchmark", "metric", "method", "rate", "against", "from", "to"],
    *["difference", "difference_low", "difference_high", "p", "p_holm", "verdict"],
    *["n_levels", "n_seeds", "reliability"],
]
SPLITS = 200  # random splits of the seeds into halves


def travelled(curve: Curve, equal: str, split: str = "") -> np.ndarray:
    """Return how far a run is from its base model at each checkpoint, (T,): in points of pass@1, in
    percent of the entropy that is lost, or in nats of divergence."""
    benchmark, metric = split + ACCURACY[0], ACCURACY[1]
    if equal in (EQUAL_ACCURACY, AS_FIRST_DECLARED):
        x = curve.mean((benchmark, metric))
        return x - x[0]
    if equal == EQUAL_ENTROPY:
        x = curve.mean((benchmark, "token_entropy"))
        return 100 * (1 - x / x[0])
    return curve.mean((benchmark, "kl_from_start"))


def reading(
    curve: Curve, equal: str, level: float, measure: tuple[str, str], split: str = ""
) -> np.ndarray | None:
    """Return the measure where the run first travelled as far as `level`, (problems,); None where
    it never did, or did so before its first checkpoint."""
    place = first_reach(travelled(curve, equal, split), level)
    if place is None or place[0] == 0 or (place[0] == 1 and place[1] < 1 - 1e-9):
        return None
    return interpolated(curve.values[split + measure[0], measure[1]], place)


def areas(
    groups: Sequence[Runs],
    equal: str,
    levels: Sequence[float],
    measure: tuple[str, str],
    split: str = "",
) -> tuple[list[dict[int, np.ndarray]], dict[int, list[float]]]:
    """Return (each group's areas by seed, (problems,) each; by seed, the levels over which they are
    the mean). A seed's levels are the ones that its runs in all groups can be read at; a seed with
    fewer than LEAST_LEVELS is left out."""
    found: list[dict[int, np.ndarray]] = [{} for _ in groups]
    shared: dict[int, list[float]] = {}
    for seed in sorted(set.intersection(*(set(runs) for runs in groups))):
        read = [
            {level: reading(runs[seed], equal, level, measure, split) for level in levels}
            for runs in groups
        ]
        both = [level for level in levels if all(one[level] is not None for one in read)]
        if len(both) >= LEAST_LEVELS:
            shared[seed] = both
            for of_group, one in zip(found, read, strict=True):
                of_group[seed] = np.mean([one[level] for level in both], axis=0)
    return found, shared


def enough(read: Sized, groups: Sequence[Runs]) -> bool:
    """Return whether the seeds that were `read` are at least MIN_SEEDS and at least two thirds of
    the seeds that all groups have."""
    seeds = set.intersection(*(set(runs) for runs in groups))
    return len(read) >= MIN_SEEDS and 3 * len(read) >= 2 * len(seeds)


def chosen_rate(by_rate: dict[str, Runs], levels: Sequence[float]) -> str | None:
    """Return the learning rate with the largest area on the dev prompts. Only rates whose own runs
    can be read at enough levels there are compared, over the levels and seeds that all of them
    share. If these are too few, return the rate that is read at the most levels, and the smallest
    of equal ones. Return None where no rate can be read at enough levels."""

    def read(rates: list[str]) -> tuple[list[dict[int, np.ndarray]], dict[int, list[float]]]:
        return areas([by_rate[rate] for rate in rates], EQUAL_ACCURACY, levels, PRIMARY, DEV)

    able = [rate for rate in by_rate if enough(read([rate])[1], [by_rate[rate]])]
    if not able:
        return None
    found, shared = read(able)
    if not enough(shared, [by_rate[rate] for rate in able]):
        return max(able, key=lambda rate: (sum(map(len, read([rate])[1].values())), -speed(rate)))
    means = [np.mean([one.mean() for one in runs.values()]) for runs in found]
    return able[int(np.argmax(means))]


def verdict(interval: Interval | None, p_holm: float, metric: str) -> str:
    """Return "better" or "worse" at a corrected p < 0.05, "equivalent" where the 95 % interval lies
    within the margin (points of pass@k), else "undecided"; "not read" without an interval."""
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
    """Return a row for each of `pairs`: the first minus the second, on the seeds that can be read
    at enough levels in both. The p-values of all rows are corrected together (Holm), and
    `reliability` is the split-half reliability of the rows' order. n_levels: how many levels the
    seed with the fewest has."""
    rows, intervals, gaps = [], [], []
    for name, both in pairs.items():
        (first, second), shared = areas(both, equal, levels, measure)
        row = {"method": name, "n_seeds": len(shared)}
        interval = None
        if enough(shared, both):
            gap = np.stack([first[s] - second[s] for s in shared])
            interval = two_way_interval(gap)
            every = sorted({level for of_seed in shared.values() for level in of_seed})
            row |= {"from": every[0], "to": every[-1], "difference": interval.value}
            row |= {"n_levels": min(map(len, shared.values()))}
            low, high = interval.bounds()
            row |= {"difference_low": low, "difference_high": high, "p": interval.p()}
            gaps.append(dict(zip(shared, gap.mean(axis=1), strict=True)))
        rows.append(row)
        intervals.append(interval)
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame["p_holm"] = holm(frame["p"].to_numpy(float))
    found = zip(intervals, frame["p_holm"], strict=True)
    frame["verdict"] = [verdict(one, p, measure[1]) for one, p in found]
    frame["equal"], (frame["benchmark"], frame["metric"]) = equal, measure
    frame["reliability"] = reliability(gaps)
    return frame


def reliability(gaps: Sequence[dict[int, float]]) -> float:
    """Return how well half of the seeds predicts the order that the other half gives: the mean rank
    correlation over random halves, corrected to all seeds by the Spearman-Brown formula. NaN for
    fewer than three methods or four seeds that all of them share."""
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
    if not spread.all():  # in some half all methods are equal
        return np.nan
    r = float(np.mean((a * b).sum(axis=0) / spread))
    return 2 * r / (1 + r) if r > 0 else r


def rank(drawn: Sequence[Curve]) -> pd.DataFrame:
    """Return COLUMNS of four readings: each method at its best rate against GRPO at GRPO's best
    rate, which is the test; each method against GRPO at the same rate; GRPO's other rates against
    its fastest, the positive control; and those against the next faster one, unless that is the
    fastest."""
    groups: dict[str, dict[str, Runs]] = {}
    for c in drawn:
        groups.setdefault(c.method, {}).setdefault(c.rate, {})[c.seed] = c
    levels = LEVELS[EQUAL_ACCURACY]
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
            found = compare(pairs, equal, LEVELS[equal], measure)
            rates = found["method"].map(best)
            frames.append(found.assign(reading=BEST, rate=rates, against=theirs))
    for rate, runs in groups[GRPO].items():
        same = {
            name: (by_rate[rate], runs)
            for name, by_rate in groups.items()
            if name in best and rate in by_rate
        }
        for measure in (PRIMARY, DISTINCT):
            found = compare(same, EQUAL_ACCURACY, levels, measure)
            frames.append(found.assign(reading=SAME, rate=rate, against=rate))
    if fastest := groups[GRPO].get(FASTEST):
        slower = {rate: (runs, fastest) for rate, runs in groups[GRPO].items() if rate != FASTEST}
        for measure in (PRIMARY, PASS64, DISTINCT):
            found = compare(slower, EQUAL_ACCURACY, levels, measure)
            named = {"reading": OWN, "rate": found["method"], "against": FASTEST, "method": GRPO}
            frames.append(found.assign(**named))
    for faster, rate in pairwise(sorted(groups[GRPO], key=speed, reverse=True)[1:]):
        step = {rate: (groups[GRPO][rate], groups[GRPO][faster])}
        for measure in (PRIMARY, DISTINCT):
            found = compare(step, EQUAL_ACCURACY, levels, measure)
            named = {"reading": NEXT, "rate": rate, "against": faster, "method": GRPO}
            frames.append(found.assign(**named))
    return pd.concat(frames, ignore_index=True)[COLUMNS]
