"""Whether a user's own runs of the study replicate the committed ones.

Runs with the same seed start from base models that are pretrained with it, so they are paired: for
each row and metric this is the mean over the shared seeds of own - stored, with a 95 % interval
over seeds. Problems are fixed, since both have the same. About one in twenty rows differs by
chance.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.comparison.spec import MEASURES
from common.metrics.paired import two_way_interval

ROW = ["table", "model", "method", "benchmark", "metric", "step"]
DRAWN = ["n_problems", "n_samples"]  # what the noise of a value depends on
SIDES = ["n_stored", "n_own", "stored", "own"]
COLUMNS = [*ROW, "unit", *SIDES, "difference", "low", "high", "p", "verdict"]
MARKS = {"replicates": "", "differs": "≠", "too few seeds": "?"}
LEGEND = (
    "stored and own: means over the seeds that both have. "
    "≠ differs from what is stored; ? too few seeds; else it replicates (95 % interval)"
)


def replication(own: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """Return COLUMNS for every row and metric of MEASURES that both have at the same last step,
    with as many problems and samples, over the seeds that both have. n_stored: how many seeds are
    stored in all. Empty where both are the same rows."""
    if own.empty or stored.empty or set(own["run_id"]) == set(stored["run_id"]):
        return pd.DataFrame(columns=COLUMNS)
    theirs, mine = _last(stored), _last(own)
    both = mine.merge(theirs, on=[*ROW, *DRAWN, "seed"], suffixes=("", "_stored"))
    sizes, rows = theirs.groupby(ROW).size(), []
    for key, part in both.groupby(ROW):
        means = part["value_stored"].mean(), part["value"].mean()
        shown, verdict = [means[1] - means[0], np.nan, np.nan, np.nan], "too few seeds"
        if len(part) >= MIN_SEEDS:
            gaps = (part["value"] - part["value_stored"]).to_numpy()
            gap = two_way_interval(gaps[:, None])
            shown = [gap.value, *gap.ends(), gap.p()]
            verdict = "replicates" if gap.p() >= 0.05 else "differs"
        unit = part["unit"].iloc[0]
        rows.append([*key, unit, sizes[key], len(part), *means, *shown, verdict])
    return pd.DataFrame(rows, columns=COLUMNS)


def _last(rows: pd.DataFrame) -> pd.DataFrame:
    shown = pd.MultiIndex.from_tuples(MEASURES.values())
    last = rows["step"] == rows.groupby("run_id")["step"].transform("max")
    return rows[last & pd.MultiIndex.from_frame(rows[["benchmark", "metric"]]).isin(shown)]
