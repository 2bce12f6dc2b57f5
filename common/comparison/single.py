"""The noise of single cluster runs: by how much a further run with the same settings, on the same
problems, would differ (common/metrics/noise.py)."""

import numpy as np
import pandas as pd

from common.claims.select import COUNTED, indexed
from common.claims.single import seed_of
from common.metrics.noise import SHARE, problem_variance, sampling_sd


def with_sampling(rows: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a column `sampling`: the standard deviation of the number, in its unit,
    over further draws of the samples, from the evaluation's counts. Without counts it is `stderr`,
    which is no smaller, because the spread over problems includes the spread over samples."""
    behind = indexed(counts)
    found = rows["stderr"].to_numpy(float).copy() if len(rows) else np.empty(0)
    keys = rows[COUNTED].itertuples(index=False, name=None)
    for i, (key, metric, k) in enumerate(zip(keys, rows["metric"], rows["k"], strict=True)):
        at = behind.rows.get(key)
        named = SHARE.match(str(metric))
        if at is None or named is None:
            continue
        n = int(behind.n[at].max())
        k = 1 if str(metric).lower().startswith("avg") else int(named[1] if pd.isna(k) else k)
        if k <= n == behind.n[at].min():
            found[i] = sampling_sd(behind.c[at], n, k)
    return rows.assign(sampling=found)


def run_variance(row: dict) -> float:
    """Return the variance that one run's number has from its seed, unless the model was not
    trained, and from its samples. A further run has the same variance."""
    sampling = row.get("sampling", row["stderr"])
    return seed_of(row) ** 2 + (0.0 if np.isnan(sampling) else sampling**2)


def other_problems(row: dict, printed: int | None) -> float:
    """Return the variance that the difference between `row` and the printed number has because the
    paper drew `printed` problems of its own; 0 for shared problems (None)."""
    if printed is None or pd.isna(row["stderr"]):
        return 0.0
    ours = problem_variance(row["stderr"], row.get("sampling", 0.0))
    return ours * (1 + row["n_problems"] / printed)
