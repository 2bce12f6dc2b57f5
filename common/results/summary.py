"""The summary of a finished run on a terminal: its accuracy and its files."""

from pathlib import Path

import pandas as pd


def summary(run: Path, following: str) -> str:
    """Return pass@1, and pass@k at the largest k, of each benchmark after the last step (percent,
    with the standard error over problems), then where the files are and the command that may follow
    (`following`). Lines have at most 80 columns, except for paths and commands.
    """
    rows = pd.read_csv(run / "metrics.csv")
    rows = rows[rows.metric.str.fullmatch(r"pass@\d+")]
    rows = rows[rows.step.isna() | (rows.step == rows.step.max())]
    lines = [f"{'percent':24}{'problems':>9}{'pass@1':>16}{'pass@k':>24}"]
    lines += [_line(str(name), its) for name, its in rows.groupby("benchmark", sort=False)]
    kept = ("metrics.csv", "counts.csv", "samples", "model")
    names = [name for name in kept if (run / name).exists()]
    return "\n".join([*lines, f"files: {', '.join(names)} in {run}", f"next:  {following}"])


def _line(name: str, rows: pd.DataFrame) -> str:
    largest = max(int(metric.removeprefix("pass@")) for metric in rows.metric)
    first, last = (rows[rows.metric == f"pass@{k}"].iloc[0] for k in (1, largest))
    cells = [f"{row.value:.1f} +- {row.stderr:.1f}" for row in (first, last)]
    most = f"{cells[1]} (k={largest})"
    return f"{name[:23]:24}{int(first.n_problems):>9}{cells[0]:>16}{most:>24}"
