"""Diversity at equal accuracy. Without this comparison, a slower learner looks as if it preserved
diversity.

A run's frontier is its diversity as a function of how far its pass@1 has risen above the pass@1 of
its own base model. It is read where the run first rises so far, linearly between checkpoints. The
run's area is the mean of its frontier over LEVELS. A level that a run does not reach is missing. So
is a level that it reaches before its first checkpoint, since nothing was measured between that and
the base model (docs/evidence.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.claims.select import COUNTED, REFUSED
from common.errors import require
from common.metrics.passk import pass_at_k
from common.results.columns import COLUMNS

ACCURACY = ("natural", "pass@1")
DIVERSITY = ("rare", "pass@64")  # the primary measure: noise on rare pass@256 is larger
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
    # (benchmark, pass@k) -> percent, (T, problems); NaN where an evaluation has fewer samples
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
    names, problems = counts["problem_id"].to_numpy(), {}
    points: dict[tuple, dict[int, dict]] = {}
    for (*run, step, benchmark), at in counts.groupby([*RUN, "step", "benchmark"]).indices.items():
        same = problems.setdefault(benchmark, tuple(names[at])) == tuple(names[at])
        require(same, "benchmark", benchmark, "its problems differ; compare one testbed")
        point = points.setdefault(tuple(run), {}).setdefault(int(step), {})
        point |= {(benchmark, f"pass@{k}"): shares[at, i] for i, k in enumerate(KS)}
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
    """Return pass@k in percent for each of KS, (R, K), from correct counts and samples (R,); NaN
    where there are fewer than k samples."""
    shares = np.full((len(c), len(KS)), np.nan)
    for i, k in enumerate(KS):
        shares[n >= k, i] = 100 * pass_at_k(c[n >= k], n[n >= k], [k])[:, 0]
    return shares


def reading(curve: Curve, level: float, measure: tuple[str, str]) -> np.ndarray | None:
    """Return the measure where the run's pass@1 first rose by `level` points, (problems,); None
    where it never did, or did so before its first checkpoint."""
    rise = curve.mean(ACCURACY) - curve.mean(ACCURACY)[0]
    reached = np.flatnonzero(rise >= level - 1e-9)
    if not len(reached) or reached[0] == 0:
        return None
    i = int(reached[0])
    share = (level - rise[i - 1]) / (rise[i] - rise[i - 1])
    if i == 1 and share < 1 - 1e-9:
        return None
    values = curve.values[measure]
    return values[i - 1] + share * (values[i] - values[i - 1])


def areas(
    pair: tuple[Runs, Runs], measure: tuple[str, str]
) -> tuple[list[dict[int, np.ndarray]], bool]:
    """Return (both sides' areas by seed, (problems,) each; whether they can be compared). A seed's
    levels are the ones that both of its runs can be read at. A seed with fewer than LEAST_LEVELS is
    left out, and a comparison needs MIN_SEEDS seeds and two thirds of those that ran."""
    found: list[dict[int, np.ndarray]] = [{}, {}]
    shared = sorted(set(pair[0]) & set(pair[1]))
    for seed in shared:
        read = [{x: reading(runs[seed], x, measure) for x in LEVELS} for runs in pair]
        both = [x for x in LEVELS if all(one[x] is not None for one in read)]
        if len(both) >= LEAST_LEVELS:
            for side, one in zip(found, read, strict=True):
                side[seed] = np.mean([one[x] for x in both], axis=0)
    return found, len(found[0]) >= MIN_SEEDS and 3 * len(found[0]) >= 2 * len(shared)


Areas = dict[tuple, tuple[tuple, np.ndarray]]  # COUNTED -> (problems, percent of each)


def at_equal_accuracy(counts: pd.DataFrame, tables: Sequence[str]) -> tuple[pd.DataFrame, Areas]:
    """Return (result rows of diversity at equal accuracy, by seed; the same by problem) for each
    of `tables` that is called "A vs B at equal pass@1". B may be LOWER_GRPO. A pair that cannot be
    compared has rows without a value, and the metric's name says why; a pair that was not run has
    none. A seed whose base model was not run is left out."""
    named = {table: found for table in tables if (found := AT_EQUAL.fullmatch(table))}
    if not named or counts.empty:
        return pd.DataFrame(columns=COLUMNS), {}
    benchmark, metric = DIVERSITY
    started = counts["seed"].isin(counts.loc[counts["method"] == BASE, "seed"])
    runs = curves(counts[started & counts["benchmark"].isin((ACCURACY[0], benchmark))])
    model, rows, behind = counts["model"].iloc[0], [], {}
    for table, found in named.items():
        places = [(LOWER, GRPO) if x == LOWER_GRPO else (RATE, x) for x in found.groups()]
        if any(place not in runs for place in places):
            continue
        pair = runs[places[0]], runs[places[1]]
        sides, able = areas(pair, DIVERSITY)
        name = f"{metric} from +{LEVELS[0]} to +{LEVELS[-1]} points of {' '.join(ACCURACY)}"
        if not able:
            name += f" ({REFUSED}: {len(sides[0])} seeds reach enough levels)"
        for method, side, of in zip(found.groups(), sides, pair, strict=True):
            for seed in side if able else of:
                value = side[seed].mean() if able else np.nan
                at = dict(table=table, model=model, method=method, benchmark=benchmark, seed=seed)
                rows.append(at | dict(metric=name, k=64, value=value, unit="percent", step=0))
                if able:
                    problems = tuple((benchmark, x) for x in of[seed].problems[benchmark])
                    key = (table, model, method, benchmark, seed, 0)
                    behind[key] = problems, side[seed]
    return pd.DataFrame(rows, columns=COLUMNS), behind


def pass_at_k_rows(rows: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with the rows of pass@k and of distinct right answers that the counts give
    instead of their own."""
    shares = percent(counts["c"].to_numpy(), counts["n"].to_numpy())
    values = {f"pass@{k}": shares[:, i] for i, k in enumerate(KS)}
    values["distinct_correct"] = counts["distinct"].to_numpy(float)
    groups = counts.assign(**values).groupby(COUNTED, observed=True)
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
