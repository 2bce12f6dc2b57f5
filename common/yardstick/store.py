"""Writes the yardstick's result rows and counts from its finished runs, and reads them again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common.results.files import read_csv, write_csv
from common.results.stored import with_stored

if TYPE_CHECKING:
    import pandas as pd

    from common.experiment import Experiment

FILES = ("metrics.csv.gz", "counts.csv.gz")
COUNTS = ["run_id", "step", "benchmark", "problem_id", "n", "c", "distinct"]


def write(root: Path, name: str, runs: list[Experiment], metrics: Sequence[str] = ()) -> list[str]:
    """Write metrics.csv.gz (only these `metrics`, where some are named) and counts.csv.gz of the
    finished runs in root/name. Return what was left out. Runs in the tables whose folders are
    missing stay in the tables. Without any finished run nothing is written."""
    from common.comparison.gather import gather

    planned, folder = {x.run_id: x for x in runs}, root / name
    found = gather(root, name, planned)
    for one in found.scopes.values():  # the laptop's alone
        rows = one.rows[one.rows["metric"].isin(metrics)] if metrics else one.rows
        made = [
            with_stored(table, folder / file, folder, list(planned))
            for file, table in zip(FILES, (rows, one.counts[COUNTS]), strict=True)
        ]
        for file, table in zip(FILES, made, strict=True):
            write_csv(folder / file, table)
    return found.left_out


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the written (rows, counts). Raises UserError where there are none."""
    rows, counts = (folder / file for file in FILES)
    return read_csv(rows), read_csv(counts, COUNTS)
