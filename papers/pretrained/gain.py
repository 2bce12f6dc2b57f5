"""How much of a gain in pass@1 is form, and how much is right answers.

A response has form if it stopped by itself and the verifier read an answer in it. With
a = P(form), r = P(right | form), u = P(right without form), and a bar for the mean of base model
and trained model,

    pass@1 = a r + u
    gain   = (a' - a) r_bar  +  (r' - r) a_bar  +  (u' - u)        the three columns, exactly

so that a model which only learns to answer and to stop gains through the first column alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from common.metrics.paired import two_way_interval
from common.results.files import read_jsonl
from common.sweeps.plan import BASE

PARTS = ("form", "right answers", "right without form")
SHARES = [
    "table",
    "method",
    "seed",
    "run_id",
    "benchmark",
    "form",
    "right_of_form",
    "right_without_form",
]
COLUMNS = ["method", "benchmark", "part", "points", "low", "high", "n_seeds"]


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
    """Return COLUMNS from SHARES: the parts of each method's gain over the base model, after its
    last step. The interval is over seeds alone (t, 95 %) and missing for one seed."""
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
                    low, high = two_way_interval(values[:, None]).bounds()
                rows.append([method, benchmark, part, values.mean(), low, high, len(values)])
    return pd.DataFrame(rows, columns=COLUMNS)


def _of(table: pd.DataFrame) -> list[tuple[float, float, float]]:
    return [*table[SHARES[-3:]].itertuples(index=False, name=None)]
