"""Every run's evaluations as a curve, from result rows and counts alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from common.comparison.matched import ACCURACY
from common.errors import UserError
from common.metrics.passk import pass_at_k
from papers.yardstick.protocol import BASE, READ

OF_SAMPLES = ("token_entropy", "kl_from_start")
KS = sorted(
    {int(m[5:]) for read in READ.values() for _, m in (ACCURACY, *read) if m.startswith("pass@")}
)


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
    """Return every run as a curve that starts at its seed's base model.

    rows: common.results.columns.COLUMNS, where `table` is a rate; counts: run_id, step, benchmark,
    problem_id, n, c, distinct. Raises UserError without a run of the base model, and as
    `require_same_problems`.
    """
    require_same_problems(counts)
    runs = rows.groupby("run_id", sort=False)[["table", "method", "seed"]].first()
    sampled = rows[rows["metric"].isin(OF_SAMPLES)]
    sampled = sampled.set_index(["run_id", "step", "benchmark", "metric"])["value"].sort_index()
    by_run = dict(list(counts.groupby("run_id")))
    points = {
        run_id: {
            int(step): _point(part, sampled.loc[run_id, step])
            for step, part in by_run[run_id].groupby("step")
        }
        for run_id in runs.index
    }
    starts = {
        seed: points[run_id][0] for run_id, seed in runs.loc[runs["method"] == BASE, "seed"].items()
    }
    drawn = []
    for run_id, (rate, method, seed) in runs[runs["method"] != BASE].iterrows():
        if seed not in starts:
            raise UserError(
                f"run {run_id}: no finished run of the base model, where its curve starts; run "
                "it first"
            )
        measured = {0: starts[seed]} | points[run_id]
        steps = np.array(sorted(measured))
        values = {name: np.stack([measured[s][name] for s in steps]) for name in starts[seed]}
        drawn.append(Curve(rate, method, int(seed), steps, values))
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
