"""The tables of small pretrained models: pass@k of trained models minus that of the base model they
started from, and minus GRPO's on the same seeds and problems; and how much of a gain in pass@1 is
form, and how much is right answers.

A response has form if it stopped by itself and the verifier read an answer in it. With
a = P(form), r = P(right | form), u = P(right without form), and a bar for the mean of base model
and trained model,

    pass@1 = a r + u
    gain   = (a' - a) r_bar  +  (r' - r) a_bar  +  (u' - u)        the three columns, exactly

so that a model which only learns to answer and to stop gains only through the first column.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from common.metrics.bootstrap import holm
from common.metrics.paired import over_problems, two_way_interval
from common.metrics.passk import pass_at_k
from common.results.files import read_jsonl
from common.sweeps.plan import BASE

GRPO = "GRPO"
OF_BASE = ["table", "model", "method", "benchmark", "k", "value", "base", "difference"]
OF_BASE += ["low", "high", "n_seeds", "n_problems"]
OF_GRPO = ["method", "benchmark", "k", "difference", "low", "high", "p_holm"]
OF_GRPO += ["detectable", "n_seeds"]
PARTS = ("form", "right answers", "right without form")
SHARES = ["table", "method", "seed", "run_id", "benchmark"]
SHARES += ["form", "right_of_form", "right_without_form"]
OF_GAIN = ["method", "benchmark", "part", "points", "low", "high", "n_seeds"]


def crossing(counts: pd.DataFrame, ks: list[int]) -> pd.DataFrame:
    """Return OF_BASE, in percent: each method's pass@k after its last step, the base model's, and
    their difference with a 95 % interval.

    counts: the rows of one table at each run's last step (table, model, method, benchmark, seed,
    problem_id, n, c). The interval is over seeds and problems. Where a method has one seed, it is
    over problems and takes the run as fixed, so that it says nothing about another seed.
    """
    rows = []
    for benchmark, here in counts.groupby("benchmark", sort=False):
        values = _values(here, ks)
        start = values.pop((BASE, here.loc[here["method"] == BASE, "seed"].min()), None)
        if start is None:
            continue
        base = start.to_numpy()
        for method in [name for name in here["method"].unique() if name != BASE]:
            seeds = [
                x for (m, _), x in values.items() if m == method and x.index.equals(start.index)
            ]
            if not seeds:
                continue
            trained = np.stack(seeds)  # (S, P, K)
            first = here[here["method"] == method].iloc[0]
            for at, k in enumerate(ks):
                difference = trained[:, :, at] - base[:, at]
                interval = (two_way_interval if len(seeds) > 1 else over_problems)(difference)
                row = [first["table"], first["model"], method, benchmark, k]
                start_at = base[:, at].mean()
                row += [trained[:, :, at].mean(), start_at, interval.value]
                rows.append([*row, *interval.of_difference(start_at), len(seeds), len(base)])
    return pd.DataFrame(rows, columns=OF_BASE)


def against_grpo(counts: pd.DataFrame, ks: list[int]) -> pd.DataFrame:
    """Return OF_GRPO, in points: the difference over the seeds that both methods have on the same
    problems, with a 95 % interval over seeds and problems that is not corrected. p_holm is, over
    the methods of a k. detectable: the smallest difference that such runs show four times in five,
    without the correction. It and the interval are missing where all differences are alike, such as
    those of methods that both solve everything: they have no spread to judge by. A method with
    fewer than two such seeds has no row.

    counts: as in `crossing`.
    """
    rows = []
    for benchmark, here in counts.groupby("benchmark", sort=False):
        values = _values(here, ks)
        grpo = {seed: x for (method, seed), x in values.items() if method == GRPO}
        for method in [name for name in here["method"].unique() if name not in (BASE, GRPO)]:
            pairs = [(x, grpo.get(seed)) for (m, seed), x in values.items() if m == method]
            same = [(x - y, y) for x, y in pairs if y is not None and x.index.equals(y.index)]
            if len(same) < 2:
                continue
            difference, start = (np.stack(one) for one in zip(*same, strict=True))  # (S, P, K)
            for at, k in enumerate(ks):
                interval = two_way_interval(difference[:, :, at])
                needed = interval.detectable() if interval.stderr > 0 else np.nan
                ends = interval.of_difference(start[:, :, at].mean())
                numbers = [interval.value, *ends, interval.p(), needed]
                rows.append([method, benchmark, k, *numbers, len(same)])
    table = pd.DataFrame(rows, columns=OF_GRPO)
    return table.assign(p_holm=table.groupby(["benchmark", "k"])["p_holm"].transform(holm))


def _values(counts: pd.DataFrame, ks: list[int]) -> dict[tuple[str, int], pd.DataFrame]:
    """Return pass@k (percent) of every problem, (P, K), by method and seed."""
    return {
        key: pd.DataFrame(100 * pass_at_k(one["c"], one["n"], ks), index=one["problem_id"])
        for key, one in counts.sort_values("problem_id").groupby(["method", "seed"], sort=False)
    }


def shares(samples: pd.DataFrame) -> tuple[float, float, float]:
    """Return (a, r, u) of a run's stored samples; r is NaN where no response has form."""
    right = (samples["outcome"] == "correct").to_numpy()
    answered = samples["outcome"].isin(["correct", "wrong"]).to_numpy()
    form = answered & samples["stopped"].astype(bool).to_numpy()
    return form.mean(), right[form].mean() if form.any() else np.nan, (right & ~form).mean()


def parts(start: tuple[float, float, float], end: tuple[float, float, float]) -> np.ndarray:
    """Return the gain's PARTS, in points, from the shares of the base model and of a trained model.
    If one of them has no response with form, its r is taken to be the other's: the gain then counts
    as form."""
    (a, r, u), (a1, r1, u1) = start, end
    known, known1 = r1 if np.isnan(r) else r, r if np.isnan(r1) else r1
    r, r1 = np.nan_to_num([known, known1])  # missing in both: a is 0, and so are these parts
    return 100 * np.array([(a1 - a) * (r + r1) / 2, (r1 - r) * (a + a1) / 2, u1 - u])


def of_runs(home: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return SHARES of the runs of these result rows, from their stored samples."""
    found = []
    for run in rows[SHARES[:4]].drop_duplicates().to_numpy().tolist():
        for file in sorted((home / run[3] / "samples").glob("*.jsonl.gz")):
            of = shares(pd.DataFrame(read_jsonl(file)))
            found.append([*run, file.name.removesuffix(".jsonl.gz"), *of])
    return pd.DataFrame(found, columns=SHARES)


def split(table: pd.DataFrame) -> pd.DataFrame:
    """Return OF_GAIN from SHARES: the parts of each method's gain over the base model, after its
    last step. The interval is over seeds only (t, 95 %) and missing for one seed."""
    rows = []
    for benchmark, here in table.groupby("benchmark", sort=False):
        start = here[here["method"] == BASE]
        if start.empty:
            continue
        for method, ends in here[here["method"] != BASE].groupby("method", sort=False):
            gains = np.array([parts(_of(start)[0], end) for end in _of(ends)])  # (S, 3)
            for part, values in zip(PARTS, gains.T, strict=True):
                low, high = (np.nan, np.nan)
                if len(values) > 1:
                    low, high = two_way_interval(values[:, None]).ends()
                rows.append([method, benchmark, part, values.mean(), low, high, len(values)])
    return pd.DataFrame(rows, columns=OF_GAIN)


def _of(table: pd.DataFrame) -> list[tuple[float, float, float]]:
    return [*table[SHARES[-3:]].itertuples(index=False, name=None)]
