"""Diversity at matched pass@1: the comparison behind `make yardstick`, from rows and counts alone.

Along training pass@1 rises and diversity falls, so a method that learns less looks as if it kept
more diversity. Here each run is read where its pass@1 on natural prompts first reaches a level,
which is the same for all runs, linearly between its evaluations. The base model is evaluation 0 of
every run. A method of which some seed does not reach the level is not ranked: ranking it by the
other seeds would select seeds by their result.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from common.comparison.matched import ACCURACY, first_reach, interpolated
from common.errors import UserError
from common.metrics.bases import base_share, mean_over_bases
from common.metrics.bootstrap import holm
from common.metrics.paired import Interval, two_way_interval
from common.metrics.passk import pass_at_k
from common.yardstick.protocol import BASE, BOTH, COLLAPSE, REFERENCE, STEPS, Protocol

MIN_SEEDS = 3  # for an interval or a test, as for claims
OF_SAMPLES = ("token_entropy", "kl_from_start")
SMALL_IS_GOOD = (STEPS, COLLAPSE)
COLUMNS = [
    "rate",
    "level",
    "benchmark",
    "metric",
    "rank",
    "method",
    "value",
    "low",
    "high",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "p_holm",
    "n_seeds",
    "n_reached",
]


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

    def at(self, level: float, *, above: bool = False) -> dict[tuple, np.ndarray] | None:
        """Return all values, (problems,) each, where pass@1 first reaches `level` or, with `above`,
        its start plus `level`; None if it never does."""
        accuracy = self.mean(ACCURACY)
        place = first_reach(accuracy, level + accuracy[0] if above else level)
        if place is None:
            return None
        return {name: interpolated(value, place) for name, value in self.values.items()}


def curves(rows: pd.DataFrame, counts: pd.DataFrame, protocol: Protocol) -> list[Curve]:
    """Return every run as a curve of `protocol`'s measures, once for each rate that it stands for.

    rows: common.results.columns.COLUMNS, where `table` is a rate or BOTH; counts: run_id, step,
    benchmark, problem_id, n, c, distinct. The collapse rate is the share (%) of training groups
    without a gradient, over the whole run. Raises UserError without a run of the base model, and as
    `require_same_problems`.
    """
    require_same_problems(counts)
    runs = rows.groupby("run_id", sort=False)[["table", "method", "seed"]].first()
    sampled = rows[rows["metric"].isin(OF_SAMPLES)]
    sampled = sampled.set_index(["run_id", "step", "benchmark", "metric"])["value"].sort_index()
    active = rows[rows["metric"] == "active_groups"].set_index("run_id")["value"]
    by_run = dict(list(counts.groupby("run_id")))
    points = {
        run_id: {
            int(step): _point(part, sampled.loc[run_id, step], protocol)
            for step, part in by_run[run_id].groupby("step")
        }
        for run_id in runs.index
    }
    bases: dict[int, list[dict]] = {}
    for run_id, seed in runs.loc[runs["method"] == BASE, "seed"].items():
        bases.setdefault(protocol.base(int(seed)), []).append(points[run_id][0])
    # runs of one base model differ in their samples only
    starts = {
        model: {name: np.mean([one[name] for one in drawn], axis=0) for name in drawn[0]}
        for model, drawn in bases.items()
    }
    drawn = []
    for run_id, (table, method, seed) in runs[runs["method"] != BASE].iterrows():
        start = starts.get(protocol.base(int(seed)))
        if start is None:
            raise UserError(
                f"run {run_id}: no finished run of the base model, where its curve starts; run "
                "it first"
            )
        measured = {0: start} | points[run_id]
        steps = np.array(sorted(measured))
        values = {name: np.stack([measured[step][name] for step in steps]) for name in start}
        values[STEPS] = steps[:, None].astype(float)
        if COLLAPSE in protocol.measures:
            values[COLLAPSE] = np.full((len(steps), 1), 100 - active[run_id])
        rates = sorted(protocol.rates, reverse=True) if table == BOTH else (table,)
        drawn += [Curve(rate, method, int(seed), steps, values) for rate in rates]
    return drawn


def require_same_problems(counts: pd.DataFrame) -> None:
    """Check that all evaluations have the same problems, since differences are taken problem by
    problem. Raises UserError for an evaluation that has other problems than the first one."""
    named = counts["benchmark"] + " " + counts["problem_id"].astype(str)
    asked = named.groupby([counts["run_id"], counts["step"]], sort=False).agg(frozenset)
    for (run_id, step), problems in asked.items():
        if problems != asked.iloc[0]:
            strange = sorted(problems ^ asked.iloc[0])[0]
            raise UserError(
                f"run {run_id}: step {step} has other problems than run {asked.index[0][0]} "
                f"({strange} is in one alone); compare runs of one testbed"
            )


def _point(
    counts: pd.DataFrame, sampled: pd.Series, protocol: Protocol
) -> dict[tuple[str, str], np.ndarray]:
    """Return the measures of one evaluation for each problem, in percent where they are shares.

    cover@tau: problems of which at least a share tau of the samples is right (arXiv 2510.08325)."""
    measures = {}
    named = [name for _, name in (ACCURACY, *protocol.measures)]
    ks = sorted({int(name[5:]) for name in named if name.startswith("pass@")})
    taus = sorted({float(name[6:]) for name in named if name.startswith("cover@")})
    for benchmark, part in counts.groupby("benchmark"):
        part = part.sort_values("problem_id")
        c, n = part["c"].to_numpy(), part["n"].to_numpy()
        shares = 100 * pass_at_k(c, n, ks)
        measures |= {(benchmark, f"pass@{k}"): shares[:, i] for i, k in enumerate(ks)}
        measures |= {(benchmark, f"cover@{tau:g}"): 100.0 * (c >= tau * n) for tau in taus}
        measures[benchmark, "distinct_correct"] = part["distinct"].to_numpy(float)
        of_samples = sampled[benchmark].items()
        measures |= {(benchmark, metric): np.array([value]) for metric, value in of_samples}
    return measures


def rank(given: list[Curve], protocol: Protocol) -> pd.DataFrame:
    """Return COLUMNS for every method in every ranking, level and measure, in the order of rank.
    `rate` is the name of the ranking.

    Intervals of values are over seeds and problems (`two_way_interval`; entropy and steps: seeds
    alone), with seeds of one base model clustered. Differences are from GRPO on the seeds that both
    have (`paired`). p_holm is corrected for all methods of one ranking, level and measure. Values
    are missing where some seed did not reach the level; intervals and p are also missing where
    fewer than 3 seeds did.
    """
    frames, above = [], protocol.bases > 1
    for name, level in product(protocol.rankings, protocol.levels):
        rate, theirs = protocol.rankings[name]
        runs: dict[str, dict] = {}
        reference = {}
        for curve in given:
            if curve.rate == rate:
                runs.setdefault(curve.method, {})[curve.seed] = curve.at(level, above=above)
            if curve.rate == theirs and curve.method == REFERENCE:
                reference[curve.seed] = curve.at(level, above=above)
        itself = REFERENCE if rate == theirs else None
        for measure in protocol.measures:
            rows = _rows(runs, reference, itself, measure, protocol)
            frame = pd.DataFrame(rows, columns=COLUMNS)
            frame["p_holm"] = holm(frame["p"].to_numpy(float))
            ascending = measure in SMALL_IS_GOOD
            frame["rank"] = frame["value"].astype(float).rank(ascending=ascending, method="min")
            frame = frame.sort_values(["rank", "method"], na_position="last")
            benchmark, metric = measure
            about = {"rate": name, "level": level, "benchmark": benchmark, "metric": metric}
            frames.append(frame.assign(**about))
    return pd.concat(frames, ignore_index=True).astype({"rank": "Int64"})


def _rows(
    runs: dict[str, dict],
    reference: dict,
    itself: str | None,
    measure: tuple[str, str],
    protocol: Protocol,
) -> list[dict]:
    """Return a row of one measure for each method. runs: method -> seed -> values at the level, or
    None if it is not reached; reference: GRPO's values by seed; itself: the method that has no
    difference from the reference, since it is the reference."""
    rows, gaps, share = [], {}, base_share([measure[1]])
    theirs = {seed: at[measure] for seed, at in reference.items() if at is not None}
    for method, by_seed in sorted(runs.items()):
        reached = {seed: at[measure] for seed, at in by_seed.items() if at is not None}
        row = {"method": method, "n_seeds": len(by_seed), "n_reached": len(reached)}
        rows.append(row)
        if len(reached) < len(by_seed):
            continue
        values = np.stack(list(reached.values()))
        row["value"] = values.mean()
        if len(values) >= MIN_SEEDS:
            over = mean_over_bases(values.mean(axis=1), [*map(protocol.base, reached)], share)
            row["low"], row["high"] = two_way_interval(values, between_seeds=[over]).bounds()
        shared = sorted(set(reached) & set(theirs))
        if method != itself and shared:
            gap = np.stack([reached[seed] - theirs[seed] for seed in shared])
            row["difference"] = gap.mean()
            if len(gap) >= MIN_SEEDS:
                over = mean_over_bases(gap.mean(axis=1), [*map(protocol.base, shared)], share)
                gaps[len(rows) - 1] = gap, over
    for index, interval in zip(gaps, paired(list(gaps.values())), strict=True):
        low, high = interval.bounds()
        rows[index] |= {"difference_low": low, "difference_high": high, "p": interval.p()}
    return rows


def paired(gaps: list[tuple[np.ndarray, tuple[float, float]]]) -> list[Interval]:
    """Return the intervals of mean differences, (seeds, problems) each, of many methods from one
    reference. Each of `gaps` also has the variance of its mean over seeds and that variance's
    degrees of freedom (`mean_over_bases`).

    As `two_way_interval`, but the variance between seeds is at least its average over all methods,
    which has the degrees of freedom of all methods together. Three seeds of one method have two
    degrees of freedom, and Holm's correction for 47 methods asks for the far tail. There
    `two_way_interval` calls some method different in up to 15 % of simulated tables without a
    difference, and finds a difference of five seed standard deviations in 12 %. This function does
    so in 0-8 % (up to 13 % where some methods' seeds spread six times as much as others') and in
    65 %. With 5 seeds the variance of a method's own seeds suffices as well.
    """
    if not gaps:
        return []
    spreads = [variance * len(gap) for gap, (variance, _) in gaps]
    sizes = [df for _, (_, df) in gaps]
    average = np.average(spreads, weights=sizes)
    return [
        two_way_interval(
            gap, between_seeds=[own if spread > average else (average / len(gap), sum(sizes))]
        )
        for (gap, own), spread in zip(gaps, spreads, strict=True)
    ]


def means(given: list[Curve]) -> pd.DataFrame:
    """Return rate, method, step, benchmark, metric, mean, sem, n_seeds, for the figure."""
    rows = [
        (c.rate, c.method, int(step), *name, value)
        for c in given
        for name in c.values
        for step, value in zip(c.steps, c.mean(name), strict=True)
    ]
    key = ["rate", "method", "step", "benchmark", "metric"]
    frame = pd.DataFrame(rows, columns=[*key, "value"])
    grouped = frame.groupby(key, sort=False)["value"].agg(mean="mean", sem="sem", n_seeds="size")
    return grouped.reset_index()
