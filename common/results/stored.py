"""Tables that came without their run folders, such as those in results/reference/: they stay as
they are, and their runs are not repeated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from common.results.files import read_csv


def run_ids(path: Path) -> set[str]:
    """Return the ids of the runs in the table at `path`; none where there is no such file."""
    return set(read_csv(path, [])["run_id"]) if path.exists() else set()


def with_stored(table: pd.DataFrame, path: Path, home: Path, runs: Sequence[str]) -> pd.DataFrame:
    """Return `table` and those rows of the table at `path` whose runs have no folder in `home`.
    `runs` lists the ids of the runs to keep; all rows are in its order, run by run."""
    gone = {run for run in runs if not (home / run).exists()}
    both = [table]
    if gone & run_ids(path):
        before = read_csv(path, [])
        both = [part for part in (table, before[before["run_id"].isin(gone)]) if len(part)]
    order = {run: i for i, run in enumerate(runs)}
    joined = pd.concat(both, ignore_index=True)
    return joined.sort_values("run_id", key=lambda ids: ids.map(order), kind="stable")
