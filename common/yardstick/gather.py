"""The yardstick's rows and counts, gathered from its finished runs and read again."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from common.results.collect import collect
from common.results.columns import COLUMNS
from common.results.files import read_csv, write, write_csv

if TYPE_CHECKING:
    import pandas as pd


def gather(root: Path, paper: str, run_ids: set[str]) -> list[str]:
    """Write metrics.csv and counts.csv.gz of those runs of root/paper that are finished; returns
    what was left out. Without any run nothing is written, so tables that came without their runs
    (results/reference/) stay."""
    import pandas as pd

    rows, left_out = collect(root, paper, "laptop")
    rows = rows[rows["run_id"].isin(run_ids)]
    if rows.empty:
        return left_out
    folder = root / paper
    counts = pd.concat([_counts(folder / name) for name in rows["run_id"].unique()])
    write_csv(folder / "metrics.csv", rows)
    text = counts.to_csv(index=False, lineterminator="\n")
    write(folder / "counts.csv.gz", gzip.compress(text.encode(), mtime=0))
    return left_out


def _counts(run: Path) -> pd.DataFrame:
    """Every evaluation's counts of one run: run_id, step, benchmark, problem_id, n, c, distinct."""
    import pandas as pd

    frames = [
        pd.read_csv(path, dtype={"problem_id": str}).assign(
            run_id=run.name, step=int(path.name[5:10])
        )
        for path in sorted((run / "eval").glob("step-?????-counts.csv"))
    ]
    columns = ["run_id", "step", "benchmark", "problem_id", "n", "c", "distinct"]
    return pd.concat(frames)[columns]


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The gathered (rows, counts). Raises UserError where there are none."""
    import pandas as pd

    rows = read_csv(folder / "metrics.csv", COLUMNS)
    return rows, pd.read_csv(folder / "counts.csv.gz", dtype={"problem_id": str})
