"""The summary of a finished run on a terminal: its accuracy and its files."""

from pathlib import Path

import pandas as pd


def summary(run: Path, following: str) -> str:
    """Return pass@1, and pass@k at the largest k, of each benchmark after the last step (percent,
    with the standard error over problems), the run's files and the command that may follow. Lines
    have at most 80 columns, except for paths and commands."""
    rows = pd.read_csv(run / "metrics.csv")
    rows = rows[rows.metric.str.fullmatch(r"pass@\d+")]
    rows = rows[rows.step.isna() | (rows.step == rows.step.max())]
    lines = [f"{'percent':24}{'problems':>9}{'pass@1':>16}{'pass@k':>24}"]
    lines += [_line(str(name), its) for name, its in rows.groupby("benchmark", sort=False)]
    kept = ("metrics.csv", "counts.csv", "samples", "model")
    names = [name for name in kept if (run / name).exists()]
    return "\n".join([*lines, f"files: {', '.join(names)} in {run}", f"next:  {following}"])


def _line(name: str, rows: pd.DataFrame) -> str:
    ks = rows.metric.str.removeprefix("pass@").astype(int)
    pairs = zip(ks, rows.value, rows.stderr, strict=True)
    cells = {k: f"{value:.1f} +- {error:.1f}" for k, value, error in pairs}
    most = f"{cells[max(ks)]} (k={max(ks)})"
    return f"{name[:23]:24}{int(rows.n_problems.iloc[0]):>9}{cells.get(1, '-'):>16}{most:>24}"
