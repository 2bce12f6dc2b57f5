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

FILES = ("metrics.csv", "counts.csv.gz")
COUNTS = ["run_id", "step", "benchmark", "problem_id", "n", "c", "distinct"]


def write(root: Path, name: str, runs: list[Experiment], metrics: Sequence[str] = ()) -> list[str]:
    """Write metrics.csv, of these `metrics` alone where some are named, and counts.csv.gz of those
    runs of root/name that are finished; returns what was left out. What the tables hold already of
    `runs` whose folders are not there stays: they came without their runs (results/reference/)."""
    import pandas as pd

    from common.comparison.gather import gather

    found, folder = gather(root, name, {x.run_id: x for x in runs}), root / name
    gone = {x.run_id for x in runs if not (folder / x.run_id).exists()} & stored(folder)
    for one in found.scopes.values():  # the laptop's alone
        rows = one.rows[one.rows["metric"].isin(metrics)] if metrics else one.rows
        made = [rows, one.counts[COUNTS]]
        if gone:
            before = [table[table["run_id"].isin(gone)] for table in read(folder)]
            made = [pd.concat(both, ignore_index=True) for both in zip(made, before, strict=True)]
        for file, table in zip(FILES, made, strict=True):
            write_csv(folder / file, table.sort_values("run_id", kind="stable"))
    return found.left_out


def stored(folder: Path) -> set[str]:
    """The ids of the runs that a folder's tables hold."""
    return set(read(folder)[0]["run_id"]) if (folder / FILES[0]).exists() else set()


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The written (rows, counts). Raises UserError where there are none."""
    import pandas as pd

    rows, counts = (folder / file for file in FILES)
    return read_csv(rows, COLUMNS), pd.read_csv(counts, dtype={"problem_id": str})
