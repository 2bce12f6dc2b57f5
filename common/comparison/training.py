"""Training curves: what finished runs logged step by step, read from their folders."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from common.results.files import read_jsonl

BLOCK = 10  # training steps whose mean is one point of a curve
PHASES = {"first": (0, 0.1), "middle": (0.4, 0.6), "last": (0.9, 1)}  # shares of a run: ours


def logs(root: Path, paper: str, rows: pd.DataFrame) -> Iterator[tuple[pd.Series, pd.DataFrame]]:
    """Yield (run, log) for every run of the result rows whose folder has a log. run: table, model,
    method, seed and (last) step, named by the run_id; log: the rows of metrics.jsonl."""
    names = ["table", "model", "method", "seed"]
    runs = rows.groupby("run_id", sort=False)
    for run_id, run in runs[names].first().assign(step=runs["step"].max()).iterrows():
        path = root / paper / run_id / "metrics.jsonl"
        if path.exists() and path.stat().st_size:  # the base model's is empty
            yield run, pd.DataFrame(read_jsonl(path))


def blocks(log: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return `step` and `columns`: the means of each BLOCK steps, at the block's last step."""
    grouped = log.groupby((log["step"] - 1) // BLOCK)
    means = grouped.agg({"step": "max"} | dict.fromkeys(columns, "mean"))
    return means.reset_index(drop=True)


def phases(log: pd.DataFrame, columns: list[str]) -> dict[str, float]:
    """Return the mean of each logged column over each of the PHASES, such as "entropy_last"."""
    done = log["step"] / log["step"].max()
    at = {name: (done > low) & (done <= high) for name, (low, high) in PHASES.items()}
    return {
        f"{column}_{name}": log.loc[steps, column].mean()
        for column in columns
        if column in log
        for name, steps in at.items()
    }


def logged(
    root: Path, paper: str, rows: pd.DataFrame, measure: Callable[[pd.DataFrame], dict[str, float]]
) -> pd.DataFrame:
    """Return what `measure` makes of each run's log, as result rows of table "TABLE, logged"."""
    names = ["table", "model", "method", "seed", "step"]
    parts = [
        {**run[names], "run_id": run.name, "metric": metric, "value": value}
        for run, log in logs(root, paper, rows)
        for metric, value in measure(log).items()
    ]
    found = pd.DataFrame(parts, columns=[*names, "run_id", "metric", "value"])
    return found.assign(table=found["table"].astype(str) + ", logged", benchmark="training")
