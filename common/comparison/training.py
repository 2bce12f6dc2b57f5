"""Training curves: what finished runs logged step by step, read from their folders, and the small
tables kept of it, which figures and claims read (also where the run folders are not)."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from common.comparison.gather import by_run
from common.results.files import write_csv

BLOCK = 10  # training steps that one point of a curve of means stands for


def logs(root: Path, paper: str, rows: pd.DataFrame) -> Iterator[tuple[pd.Series, pd.DataFrame]]:
    """(run, log) of every run of the result rows that logged a step and whose folder is there.

    run: table, model, method, seed and step (its last), named by its run_id; log: one row a
    training step, the columns of metrics.jsonl.
    """
    for run_id, run in by_run(rows).iterrows():
        path = root / paper / run_id / "metrics.jsonl"
        if path.exists() and path.stat().st_size:  # the base model's is empty
            yield run, pd.read_json(path, lines=True)


def blocks(log: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """step and `columns`: means of BLOCK steps under the block's last step."""
    grouped = log.groupby((log["step"] - 1) // BLOCK)
    means = grouped.agg({"step": "max"} | dict.fromkeys(columns, "mean"))
    return means.reset_index(drop=True)


def keep(path: Path, curves: list[pd.DataFrame], columns: list[str]) -> None:
    """Write the curves as one table; without any, a table that came without its runs stays."""
    if curves:
        write_csv(path, pd.concat(curves, ignore_index=True)[columns])


def kept(path: Path, columns: list[str]) -> pd.DataFrame:
    """The table that `keep` wrote; empty if there is none."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=columns)
