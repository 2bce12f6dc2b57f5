"""The yardstick's rows and counts: written from its finished runs, and read again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common.results.columns import COLUMNS
from common.results.files import read_csv, write_csv

if TYPE_CHECKING:
    import pandas as pd

    from common.experiment import Experiment

COUNTS = ["run_id", "step", "benchmark", "problem_id", "n", "c", "distinct"]


def write(root: Path, name: str, runs: list[Experiment], metrics: Sequence[str] = ()) -> list[str]:
    """Write metrics.csv, of these `metrics` alone where some are named, and counts.csv.gz of those
    runs of root/name that are finished; returns what was left out. Without any run nothing is
    written, so tables that came without their runs (results/reference/) stay."""
    from common.comparison.gather import gather

    found = gather(root, name, {x.run_id: x for x in runs})
    for one in found.scopes.values():  # the laptop's alone
        kept = one.rows["metric"].isin(metrics) if metrics else slice(None)
        write_csv(root / name / "metrics.csv", one.rows[kept])
        write_csv(root / name / "counts.csv.gz", one.counts[COUNTS])
    return found.left_out


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The written (rows, counts). Raises UserError where there are none."""
    import pandas as pd

    rows = read_csv(folder / "metrics.csv", COLUMNS)
    return rows, pd.read_csv(folder / "counts.csv.gz", dtype={"problem_id": str})
