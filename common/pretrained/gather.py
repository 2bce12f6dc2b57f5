"""Rows and counts of the runs of a scale that are finished and whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from common.results.collect import verify
from common.results.files import read_csv

if TYPE_CHECKING:
    from common.experiment import Experiment

NAMED = ["table", "model", "method", "seed", "step", "run_id"]
COUNTS = ["benchmark", "problem_id", "n", "c", "distinct"]


def rows_of(home: Path, runs: list[Experiment]) -> pd.DataFrame:
    """All result rows, the runs in their order; what is left out is told on stderr."""
    return pd.concat([read_csv(home / x.run_id / "metrics.csv") for x in _whole(home, runs)])


def counts_of(home: Path, runs: list[Experiment]) -> pd.DataFrame:
    """The counts of each run's last evaluation, with what names it; empty where there are none."""
    frames = [
        pd.read_csv(home / x.run_id / "counts.csv", dtype={"problem_id": str}).assign(
            table=x.table,
            model=x.model.name,
            method=x.label,
            seed=x.seed,
            step=x.optim.steps,
            run_id=x.run_id,
        )
        for x in _whole(home, runs)
    ]
    empty = pd.DataFrame(columns=[*NAMED, *COUNTS])
    return pd.concat(frames)[[*NAMED, *COUNTS]] if frames else empty


def _whole(home: Path, runs: list[Experiment]) -> list[Experiment]:
    damage = {x.run_id: _damage(home / x.run_id) for x in runs}
    for name, problems in damage.items():
        if problems:
            print(f"left out: {home / name}: {problems[0]}", file=sys.stderr)
    return [x for x in runs if not damage[x.run_id]]


def _damage(run: Path) -> list[str]:
    return verify(run) if (run / "DONE").exists() else ["no finished run"]
