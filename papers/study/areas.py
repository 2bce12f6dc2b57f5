"""The yardstick: one comparison of methods with GRPO at several learning rates, on two testbeds, by
areas between frontiers (docs/evidence.md has its rules).

configs/reproduce.yaml states the rows (named experiments), learning rates, steps and seeds. Every
seed starts from a base model of its own. `rlvr reproduce paper=yardstick scale=third_maze` trains
what is missing, and `rlvr figures paper=yardstick` makes the tables and figures again.

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
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from common.claims.gaps import MIN_SEEDS
from common.comparison.matched import ACCURACY, first_reach, interpolated
from common.comparison.matched import DIVERSITY as PRIMARY
from common.errors import require
from common.metrics.bootstrap import holm
from common.metrics.paired import Interval, two_way_interval
from common.metrics.passk import pass_at_k

TESTBEDS = {"third_maze": "mazes with loops", "third_countdown": "Subset-Countdown"}
RATES = ("lr 1e-4", "lr 3e-5", "lr 1e-5")  # `table` of the runs that are compared
FASTEST = RATES[0]
GRPO, BASE = "GRPO", "base"
MARGIN = 3.0  # points, within which two methods are equivalent
LEAST_LEVELS = 5  # how many levels a seed must have on both sides of a comparison
DEV = "dev_"  # begins the name of a benchmark of dev prompts
LAST_KS = (1, 64, 256)  # of pass@k after the last step
PASS64, DISTINCT = ("natural", "pass@64"), ("natural", "distinct_correct")
# what is held equal: accuracy in points above the base model, entropy in percent of the base
# model's entropy that is lost, divergence from the base model in nats
EQUAL_ACCURACY, EQUAL_ENTROPY, EQUAL_KL = "pass@1", "entropy", "KL"
AS_FIRST_DECLARED = "pass@1 to +10"  # declared before any run of a method was read
LEVELS = {
    EQUAL_ACCURACY: tuple(range(2, 17)),
    AS_FIRST_DECLARED: tuple(range(2, 11)),
    EQUAL_ENTROPY: tuple(range(10, 51, 5)),
    EQUAL_KL: tuple(n / 10 for n in range(1, 13)),
}
READ = {  # measures that are read at each; the very first is tested
    EQUAL_ACCURACY: (PRIMARY, PASS64, DISTINCT, ("rare", "distinct_correct")),
    AS_FIRST_DECLARED: (PRIMARY,),
    EQUAL_ENTROPY: (PRIMARY, ACCURACY),
    EQUAL_KL: (PRIMARY, ACCURACY),
}
CONTROLS = ("DAPO", "CISPO", "GRPO (N=2)", "GRPO (N=32)")  # methods of the controls alone
OF_SAMPLES = ("token_entropy", "kl_from_start")
KS = sorted(
    {int(m[5:]) for read in READ.values() for _, m in (ACCURACY, *read) if m.startswith("pass@")}
)
RUN = ["table", "method", "seed"]  # columns that name a run; `table` is its rate
BEST, SAME, OWN, NEXT = "best rates", "same rate", "GRPO's rates", "GRPO's next rate"  # readings
COLUMNS = [
    *["reading", "equal", "benchmark", "metric", "method", "rate", "against", "from", "to"],
    *["difference", "difference_low", "difference_high", "p", "p_holm", "verdict"],
    *["n_levels", "n_seeds", "reliability"],
]
SPLITS = 200  # random splits of the seeds into halves


def methods(labels: Sequence[str]) -> list[str]:
    """Return the methods that are compared with GRPO: all but GRPO, the base model and the methods
    that run only for the controls."""
    return [name for name in dict.fromkeys(labels) if name not in (*CONTROLS, GRPO, BASE)]


def speed(rate: str) -> float:
    """Return the learning rate in a name such as "lr 1e-4"."""
    return float(rate.split()[-1])


@dataclass(frozen=True)
class Curve:
    """One run's evaluations, the base model first."""

    rate: str
    method: str
    seed: int
    steps: np.ndarray  # (T,)
    values: dict[tuple[str, str], np.ndarray]  # (benchmark, metric) -> (T, problems), or (T, 1)

    def mean(self, measure: tuple[str, str]) -> np.ndarray:
        return self.values[measure].mean(axis=1)


def curves(rows: pd.DataFrame, counts: pd.DataFrame) -> list[Curve]:
    """Return every run as a curve that starts at its seed's base model, from gathered rows and
    counts, whose `table` is a rate. Raises UserError without a run of the base model, and as
    `require_same_problems`."""
    require_same_problems(counts)
    sampled = rows[rows["metric"].isin(OF_SAMPLES)]
    sampled = sampled.set_index([*RUN, "step", "benchmark", "metric"])["value"].sort_index()
    points: dict[tuple, dict[int, dict]] = {}
    for (*run, step), part in counts.groupby([*RUN, "step"]):
        points.setdefault(tuple(run), {})[int(step)] = _point(part, sampled.loc[*run, step])
    starts = {seed: steps[0] for (_, method, seed), steps in points.items() if method == BASE}
    drawn = []
    for run in rows[RUN].drop_duplicates().itertuples(index=False, name=None):
        if run[1] == BASE:
            continue
        require(run[2] in starts, "seed", run[2], "no finished run of its base model; run it first")
        measured = {0: starts[run[2]]} | points[run]
        steps = np.array(sorted(measured))
        names = starts[run[2]]
        values = {name: np.stack([measured[step][name] for step in steps]) for name in names}
        drawn.append(Curve(*run, steps, values))
    return drawn


def require_same_problems(counts: pd.DataFrame) -> None:
    """Raise UserError if evaluations have different problems: differences are taken by problem."""
    asked = counts.groupby([*RUN, "step", "benchmark"])["problem_id"].agg(frozenset)
    for benchmark, sets in asked.groupby("benchmark"):
        several = sets.nunique() > 1
        require(not several, "benchmark", benchmark, "its problems differ; compare one testbed")


def _point(counts: pd.DataFrame, sampled: pd.Series) -> dict[tuple[str, str], np.ndarray]:
    """Return the measures of one evaluation for each problem, in percent where they are shares."""
    measures = {}
    for benchmark, part in counts.groupby("benchmark"):
        part = part.sort_values("problem_id")
        shares = 100 * pass_at_k(part["c"].to_numpy(), part["n"].to_numpy(), KS)
        measures |= {(benchmark, f"pass@{k}"): shares[:, i] for i, k in enumerate(KS)}
        measures[benchmark, "distinct_correct"] = part["distinct"].to_numpy(float)
        of_samples = sampled[benchmark].items()
        measures |= {(benchmark, metric): np.array([value]) for metric, value in of_samples}
    return measures


Runs = dict[int, Curve]  # seed -> run, for one method at one learning rate


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


def chosen_rate(by_rate: dict[str, Runs]) -> str | None:
    """Return the learning rate with the largest area on the dev prompts. Only rates whose own runs
    can be read at enough levels there are compared, over the levels and seeds that all of them
    share. If these are too few, return the rate that is read at the most levels, and the smallest
    of equal ones. Return None where no rate can be read at enough levels."""

    def read(rates: list[str]) -> tuple[list[dict[int, np.ndarray]], dict[int, list[float]]]:
        runs = [by_rate[rate] for rate in rates]
        return areas(runs, EQUAL_ACCURACY, LEVELS[EQUAL_ACCURACY], PRIMARY, DEV)

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
    pairs: dict[str, tuple[Runs, Runs]], equal: str, measure: tuple[str, str]
) -> pd.DataFrame:
    """Return a row for each of `pairs`: the first minus the second, on the seeds that can be read
    at enough levels in both. The p-values of all rows are corrected together (Holm), and
    `reliability` is the split-half reliability of the rows' order. n_levels: how many levels the
    seed with the fewest has."""
    rows, intervals, gaps = [], [], []
    for name, both in pairs.items():
        (first, second), shared = areas(both, equal, LEVELS[equal], measure)
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
    best = {name: chosen_rate(groups[name]) for name in (GRPO, *methods(list(groups)))}
    theirs = best.pop(GRPO)
    if theirs is None:
        return pd.DataFrame(columns=COLUMNS)
    frames: list[pd.DataFrame] = []

    def add(reading, pairs, against, measures, rates=None, equal=EQUAL_ACCURACY) -> None:
        """Compare the pairs, which are named by method (`rates` says at which rate), or by GRPO's
        own rate."""
        for measure in measures:
            found = compare(pairs, equal, measure).assign(reading=reading, against=against)
            found["rate"] = found["method"].map(rates) if rates else found["method"]
            frames.append(found if rates else found.assign(method=GRPO))

    own = groups[GRPO]
    pairs = {n: (groups[n][rate] if rate else {}, own[theirs]) for n, rate in best.items()}
    for equal, measures in READ.items():
        add(BEST, pairs, theirs, measures, best, equal)
    for rate, runs in own.items():
        same = {n: (groups[n][rate], runs) for n in groups if n in best and rate in groups[n]}
        add(SAME, same, rate, (PRIMARY, DISTINCT), dict.fromkeys(best, rate))
    if fastest := own.get(FASTEST):
        slower = {rate: (runs, fastest) for rate, runs in own.items() if rate != FASTEST}
        add(OWN, slower, FASTEST, (PRIMARY, PASS64, DISTINCT))
    for faster, rate in pairwise(sorted(own, key=speed, reverse=True)[1:]):
        add(NEXT, {rate: (own[rate], own[faster])}, faster, (PRIMARY, DISTINCT))
    return pd.concat(frames, ignore_index=True)[COLUMNS]
