"""Diversity at equal accuracy: without it, a slower learner looks as if it preserved diversity.

A run's frontier is its diversity as a function of how far its pass@1 has risen above its base
model's. It is read where the run first rises so far, linearly between checkpoints. The run's area
is the mean of its frontier over LEVELS. A level that a run does not reach, or reaches before its
first checkpoint, is missing (docs/evidence.md). Two runs are compared on the levels that both have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.claims.select import REFUSED
from common.errors import require
from common.metrics.paired import seed_means
from common.metrics.passk import pass_at_k
from common.results.columns import COLUMNS, EVALUATION

ACCURACY = ("natural", "pass@1")
DIVERSITY = ("rare", "pass@64")  # the primary measure: noise on rare pass@256 is larger
# of the natural prompts too: pass@8, and how many distinct right answers the most samples have
FEW, ANSWERS = ("natural", "pass@8"), ("natural", "distinct_correct")
ANSWERS_64 = ("natural", "distinct_correct of 64")  # at checkpoints with 64 samples
GRPO, BASE = "GRPO", "base"
RATE, LOWER = "lr 1e-5", "lr 3e-6"  # tables of the study: its rate, and GRPO's next lower one
LOWER_GRPO = f"{GRPO} ({LOWER})"
LEVELS = range(2, 17)  # points of pass@1 above the base model
LEAST_LEVELS = 5  # how many levels a seed must have on both sides of a comparison
DEV = "dev_"  # begins the name of a benchmark of dev prompts
KS = (1, 8, 64, 256)
RUN = ["table", "method", "seed"]  # columns that name a run
AT_EQUAL = re.compile(r"(.+) vs (.+) at equal pass@1")


@dataclass(frozen=True)
class Curve:
    """One run's evaluations, the base model first."""

    steps: np.ndarray  # (T,)
    # (benchmark, pass@k) -> percent, (benchmark, distinct_correct) -> answers: (T, problems)
    values: dict[tuple[str, str], np.ndarray]
    problems: dict[str, tuple]  # benchmark -> its problems

    def mean(self, measure: tuple[str, str]) -> np.ndarray:
        return self.values[measure].mean(axis=1)


Runs = dict[int, Curve]  # seed -> run, for one method at one learning rate


def curves(counts: pd.DataFrame) -> dict[tuple[str, str], Runs]:
    """Return every run as a curve that starts at its seed's base model, by table and method. Raises
    UserError without a run of the base model, and where evaluations have different problems."""
    counts = counts.sort_values("problem_id", ignore_index=True)
    shares = percent(counts["c"].to_numpy(), counts["n"].to_numpy())
    answers = {
        measure: counts["distinct"].where(counts["n"] == n).to_numpy()
        for (_, measure), n in ((ANSWERS, KS[-1]), (ANSWERS_64, KS[-2]))
    }
    names, problems = counts["problem_id"].to_numpy(), {}
    points: dict[tuple, dict[int, dict]] = {}
    for (*run, step, benchmark), at in counts.groupby([*RUN, "step", "benchmark"]).indices.items():
        same = problems.setdefault(benchmark, tuple(names[at])) == tuple(names[at])
        require(same, "benchmark", benchmark, "its problems differ; compare one testbed")
        point = points.setdefault(tuple(run), {}).setdefault(int(step), {})
        point |= {(benchmark, f"pass@{k}"): shares[at, i] for i, k in enumerate(KS)}
        point |= {(benchmark, measure): found[at] for measure, found in answers.items()}
    starts = {seed: steps[0] for (_, method, seed), steps in points.items() if method == BASE}
    found: dict[tuple[str, str], Runs] = {}
    for (table, method, seed), steps in points.items():
        if method == BASE:
            continue
        require(seed in starts, "seed", seed, "no finished run of its base model; run it first")
        measured = {0: starts[seed]} | steps
        at = np.array(sorted(measured))
        values = {name: np.stack([measured[step][name] for step in at]) for name in starts[seed]}
        found.setdefault((table, method), {})[seed] = Curve(at, values, problems)
    return found


def percent(c: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return pass@k in percent for each of KS, (R, K), from c and n (R,); NaN where n < k."""
    shares = np.full((len(c), len(KS)), np.nan)
    for i, k in enumerate(KS):
        shares[n >= k, i] = 100 * pass_at_k(c[n >= k], n[n >= k], [k])[:, 0]
    return shares


def crossings(rise: np.ndarray) -> np.ndarray:
    """Return where pass@1 first rises to each of LEVELS, (L, B), as a place between checkpoints:
    3.5 is half way from checkpoint 3 to 4. `rise` (T, B) is how far each of B curves is above its
    start. NaN where a curve never rises so far, or does so before its first checkpoint."""
    highest = np.maximum.accumulate(rise)
    level = np.array(LEVELS)[:, None]
    after = (highest < level[:, None] - 1e-9).sum(axis=1)  # the first checkpoint that has it
    reached = (after > 0) & (after < len(rise))
    i = np.where(reached, after, 1)
    low, high = (np.take_along_axis(rise, i + step, axis=0) for step in (-1, 0))
    with np.errstate(divide="ignore", invalid="ignore"):  # of what is not reached
        share = (level - low) / (high - low)
    reached &= (i > 1) | (share >= 1 - 1e-9)
    return np.where(reached, i - 1 + share, np.nan)


def interpolated(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the columns of values (T, P) at `places` between checkpoints, (L, P); NaN at NaN."""
    known = np.nan_to_num(places)
    i = np.minimum(known.astype(int), len(values) - 2)
    low, high = (np.take_along_axis(values, i + step, axis=0) for step in (0, 1))
    return np.where(np.isnan(places), np.nan, low + (known - i) * (high - low))


def readings(curve: Curve, measure: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the measure at each of LEVELS: of every problem, (L, P), and its mean over problems in
    each of B draws of the B natural problems, (L, B), the same in all runs."""
    accuracy, values = curve.values[ACCURACY], curve.values[measure]
    size = accuracy.shape[1]
    weights = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), size).T / size
    rise = accuracy - accuracy[0]
    places = crossings(rise.mean(axis=1, keepdims=True))
    own = values @ weights if measure[0] == ACCURACY[0] else values.mean(axis=1, keepdims=True)
    drawn = interpolated(np.broadcast_to(own, (len(own), size)), crossings(rise @ weights))
    return interpolated(values, np.broadcast_to(places, (len(LEVELS), values.shape[1]))), drawn


@dataclass(frozen=True)
class Area:
    """The mean of a run's frontier over `levels`, as values whose mean over the benchmarks' means
    is the area, and whose spread is that of the problems. The problems of the measure are random,
    and so are the natural ones, which say where a level lies; each has a value."""

    values: np.ndarray  # (P + B,), or (B,) for a measure of the natural problems themselves
    strata: tuple[str, ...]  # the benchmark of each value
    levels: tuple[int, ...]

    @property
    def mean(self) -> float:
        return float(seed_means(self.values[None], self.strata)[0])


def areas(
    pair: tuple[Runs, Runs], measure: tuple[str, str]
) -> tuple[tuple[dict[int, Area], dict[int, Area]], bool]:
    """Return (both sides' areas by seed; whether they can be compared). A seed needs LEAST_LEVELS
    at which both runs can be read, a comparison MIN_SEEDS such seeds and two thirds of all."""
    found: tuple[dict[int, Area], dict[int, Area]] = ({}, {})
    shared = sorted(set(pair[0]) & set(pair[1]))
    for seed in shared:
        read = [readings(runs[seed], measure) for runs in pair]
        both = ~np.isnan(read[0][0] + read[1][0]).any(axis=1)
        if both.sum() < LEAST_LEVELS:
            continue
        unread = np.isnan(read[0][1] + read[1][1])
        for side, (values, drawn) in zip(found, read, strict=True):
            own = values[both].mean(axis=0)
            known = np.ma.masked_array(drawn, unread).mean(axis=0).filled(own.mean())
            side[seed] = _area(own, known, measure[0], tuple(np.array(LEVELS)[both].tolist()))
    return found, len(found[0]) >= MIN_SEEDS and 3 * len(found[0]) >= 2 * len(shared)


def _area(own: np.ndarray, drawn: np.ndarray, benchmark: str, levels: tuple[int, ...]) -> Area:
    """Return the area of one run from its value for each problem, (P,), and for each of B draws of
    the B natural problems, (B,). The deviation of a draw times B / sqrt(B - 1) stands for a
    problem: a mean of B values has their variance over B, and a bootstrap's is too small by (B - 1)
    / B. A measure of natural problems is drawn with them, so the draws are all of its spread."""
    size = len(drawn)
    deviations = size / np.sqrt(max(size - 1, 1)) * (drawn - drawn.mean())
    if benchmark == ACCURACY[0]:
        return Area(own.mean() + deviations, (benchmark,) * len(drawn), levels)
    values = 2 * np.concatenate([own, deviations])  # twice, as the mean is over two benchmarks
    strata = (benchmark,) * len(own) + (f"draws of {ACCURACY[0]}",) * len(drawn)
    return Area(values, strata, levels)


Areas = dict[tuple, tuple[tuple, np.ndarray]]  # EVALUATION -> (problems, percent of each)


def at_equal_accuracy(counts: pd.DataFrame, tables: Sequence[str]) -> tuple[pd.DataFrame, Areas]:
    """Return (result rows of diversity at equal accuracy, by seed; the same by problem) for each of
    `tables` called "A vs B at equal pass@1"; B may be LOWER_GRPO. A pair that cannot be compared
    has rows without a value, whose metric says why; a pair or seed that was not run has none."""
    named = {table: found for table in tables if (found := AT_EQUAL.fullmatch(table))}
    if not named or counts.empty:
        return pd.DataFrame(columns=COLUMNS), {}
    benchmark, metric = DIVERSITY
    started = counts["seed"].isin(counts.loc[counts["method"] == BASE, "seed"])
    runs = curves(counts[started & counts["benchmark"].isin((ACCURACY[0], benchmark))])
    model, rows, behind = counts["model"].iloc[0], [], {}
    ids = counts.drop_duplicates(RUN).set_index(RUN).get("run_id", pd.Series(dtype=object))
    for table, found in named.items():
        places = [(LOWER, GRPO) if x == LOWER_GRPO else (RATE, x) for x in found.groups()]
        if any(place not in runs for place in places):
            continue
        pair = runs[places[0]], runs[places[1]]
        sides, able = areas(pair, DIVERSITY)
        name = f"{metric} from +{LEVELS[0]} to +{LEVELS[-1]} points of {' '.join(ACCURACY)}"
        if not able:
            name += f" ({REFUSED}: {len(sides[0])} seeds reach enough levels)"
        for method, side, of, place in zip(found.groups(), sides, pair, places, strict=True):
            for seed in side if able else of:
                value = side[seed].mean if able else np.nan
                at = dict(table=table, model=model, method=method, benchmark=benchmark, seed=seed)
                at["run_id"] = ids.get((*place, seed))
                rows.append(at | dict(metric=name, k=64, value=value, unit="percent", step=0))
                if able:
                    area = side[seed]
                    problems = tuple(zip(area.strata, range(len(area.values)), strict=True))
                    behind[table, model, method, benchmark, seed, 0] = problems, area.values
    return pd.DataFrame(rows, columns=COLUMNS), behind


def pass_at_k_rows(rows: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with pass@k and distinct right answers taken from the counts."""
    shares = percent(counts["c"].to_numpy(), counts["n"].to_numpy())
    values = {f"pass@{k}": shares[:, i] for i, k in enumerate(KS)}
    values["distinct_correct"] = counts["distinct"].to_numpy(float)
    groups = counts.assign(**values).groupby(EVALUATION, observed=True)
    size = groups.agg(n_problems=("n", "size"), n_samples=("n", "first"))
    ids = rows.drop_duplicates(RUN)[[*RUN, "run_id"]]
    found = []
    for name in values:
        of = size.assign(value=groups[name].mean(), stderr=groups[name].sem(), metric=name)
        k = float(name[5:]) if name.startswith("pass@") else np.nan
        unit = "count" if np.isnan(k) else "percent"
        found.append(of.assign(k=k, unit=unit).dropna(subset=["value"]).reset_index())
    own = rows[~rows["metric"].isin(list(values))]
    counted = pd.concat(found, ignore_index=True).merge(ids, on=RUN)
    return pd.concat([own, counted], ignore_index=True)[COLUMNS]
