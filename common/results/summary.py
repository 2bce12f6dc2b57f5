"""The summary of a finished run on a terminal: its accuracy, the base model's, its files."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd


def summary(run: Path, following: str) -> str:
    """Return pass@1, and pass@k at the largest k, of each benchmark (percent, with the standard
    error over problems), then where the files are and the command that may follow (`following`).

    A training run is shown with the base model's scores, where a finished run in the same folder
    has them. Lines have at most 80 columns, except for paths and commands.
    """
    rows, curve = _last(run), run / "metrics.jsonl"
    trained = curve.exists() and curve.stat().st_size > 0
    base = _base(run) if trained else None
    lines = [f"{'percent':24}{'problems':>9}{'pass@1':>16}{'pass@k':>24}"]
    for benchmark, its in rows.groupby("benchmark", sort=False):
        lines.append(_line(str(benchmark), its))
        before = None if base is None else base[base.benchmark == benchmark]
        if before is not None and len(before):
            lines.append(_line("  base model", before))
    if trained:
        lines += _without_gradient(curve)
    if trained and base is None:
        lines.append("base model: no run of it beside this one (the same words and optim.steps=0)")
    kept = ("metrics.csv", "counts.csv", "samples", "model")
    names = [name for name in kept if (run / name).exists()]
    return "\n".join([*lines, f"files: {', '.join(names)} in {run}", f"next:  {following}"])


def _without_gradient(curve: Path) -> list[str]:
    """Return a line on the steps of a training run that had no gradient, as where all rewards of
    every group are equal; [] where less than half of the steps were so."""
    rows = [json.loads(line) for line in curve.read_text().splitlines()]
    still = [row for row in rows if row.get("grad_norm") == 0]
    if 2 * len(still) < len(rows):
        return []
    rewards = [row["reward"] for row in still if "reward" in row]
    mean = f", mean reward {sum(rewards) / len(rewards):.3g}" if rewards else ""
    return [f"no gradient in {len(still)} of {len(rows)} steps{mean}: nothing was learnt in them"]


def _last(run: Path) -> pd.DataFrame:
    """Return the pass@k rows of a run's last step."""
    rows = pd.read_csv(run / "metrics.csv")
    rows = rows[rows.metric.str.fullmatch(r"pass@\d+")]
    return rows[rows.step.isna() | (rows.step == rows.step.max())]


def _line(name: str, rows: pd.DataFrame) -> str:
    largest = max(int(metric.removeprefix("pass@")) for metric in rows.metric)
    first, last = (rows[rows.metric == f"pass@{k}"].iloc[0] for k in (1, largest))
    cells = [f"{row.value:.1f} +- {row.stderr:.1f}" for row in (first, last)]
    most = f"{cells[1]} (k={largest})"
    return f"{name[:23]:24}{int(first.n_problems):>9}{cells[0]:>16}{most:>24}"


def _base(run: Path) -> pd.DataFrame | None:
    """Return the pass@k rows of a finished run without training steps in the same folder, with the
    same model, evaluation settings and benchmarks; None where there is none."""
    known = _asked(run)
    for marker in run.parent.glob("*/DONE"):
        other = marker.parent
        config = other / "config.yaml"
        untrained = config.exists() and "\n  steps: 0\n" in config.read_text()
        if other != run and untrained and _asked(other) == known:
            return _last(other)
    return None


def _asked(run: Path) -> tuple:
    import yaml

    config = yaml.safe_load((run / "config.yaml").read_text())
    return config["model"], config["eval"], config["data"]["benchmarks"]
