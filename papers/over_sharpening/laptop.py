"""The token entropy of the policy along training (Fig. 6), from the logs of laptop runs.

`measure` writes <root>/over_sharpening/laptop/<table>_entropy.csv.gz from the run folders. Where a
table has no run folders, its existing file (such as a committed one) is left as it is.
"""

from pathlib import Path

import pandas as pd

from common.comparison import training
from common.comparison.gather import LAPTOP, Gathered

METHODS = ("DAPO", "DAPO+IAC", "GRPO", "IAC")
COLUMNS = ["step", "entropy", "method", "seed"]  # entropy: nats a token, exact, of the rollouts


def measure(root: Path, runs: Gathered) -> None:
    """Write the entropy curves of every finished run of METHODS, one file for each table."""
    rows = runs.rows
    for table in rows["table"].unique():
        measured = rows[(rows["table"] == table) & rows["method"].isin(METHODS)]
        logs = training.logs(root, "over_sharpening", measured)
        curves = [log.assign(method=run["method"], seed=run["seed"]) for run, log in logs]
        training.keep(_file(root, table), curves, COLUMNS)


def read(root: Path, table: str) -> pd.DataFrame:
    """Return the entropy curves that `measure` wrote for one table; empty if there are none."""
    return training.kept(_file(root, table), COLUMNS)


def _file(root: Path, table: str) -> Path:
    return root / "over_sharpening" / LAPTOP / f"{table}_entropy.csv.gz"
