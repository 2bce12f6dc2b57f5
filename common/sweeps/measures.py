"""What a paper measures on the models that a training kept. A measure is a job of its own on a
cluster, after the training and without a GPU. It leaves a run folder of the paper, whose result
rows the comparison gathers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import PositiveInt

from common.backends import snapshots
from common.config.schema import Folder, Model
from common.errors import require
from common.evaluation.config import SHOWN_IN, Row, run_name
from common.experiment import Experiment
from common.sweeps.plan import Reproduce, Sweep, row_of, runs_of


@dataclass(frozen=True)
class Measure:
    """One job that measures the kept models of a training run."""

    run: str  # dotted path of run(measure), which resumes by itself and leaves DONE at its end
    takes: str  # dotted path of (measure, training, profile) -> cost.Estimate
    row: Row  # the training that the numbers belong to
    model: Model  # what the training started from
    steps: list[PositiveInt]  # steps of the training whose models are measured
    updates: PositiveInt  # optimiser steps in each training step
    results_dir: Folder

    @property
    def path(self) -> Path:
        readable = f"{self.row.trained}-{self.row.benchmark}"
        return Path(self.results_dir) / self.row.paper / run_name(readable, self.identity())

    def identity(self) -> dict:
        """Return everything that the numbers depend on."""
        row = {key: one for key, one in asdict(self.row).items() if key not in SHOWN_IN}
        return {"measure": self.run, "row": row, "steps": self.steps, "updates": self.updates}

    def config(self) -> dict:
        return self.identity() | {"scope": self.row.scope, "row": asdict(self.row)}

    def weights(self, step: int) -> Path:
        """Return the folder of the model after `step`. Raises UserError where it is missing."""
        run = Path(self.results_dir) / self.row.paper / self.row.trained
        kept = snapshots.folder(run, step)
        folder = kept if kept.is_dir() else run / "model"
        last = kept.is_dir() or step == self.row.checkpoint
        require(last and folder.is_dir(), "measures.steps", step, f"{run} has no model of it")
        return folder


def measures_of(config: Reproduce, sweep: Sweep, runs: list[Experiment]) -> list[Measure]:
    """Return the measures of a sweep's training runs. Raises UserError for a step whose model a
    training does not keep."""
    found = []
    for name, rows in sweep.measures.items():
        named = {row.rpartition("/")[2]: steps for row, steps in rows.items()}
        for x in runs:
            steps = named.get(x.name, [])
            lost = [one for one in steps if one not in (*snapshots.steps(x), x.optim.steps)]
            remedy = f"{x.name} keeps no model of them: add keep_at={lost}"
            require(not lost, f"{sweep.table}.measures.{name}", lost, remedy)
            one = Measure(
                **config.measures[name],
                row=row_of(x, name, x.optim.steps),
                model=x.model,
                steps=steps,
                updates=x.optim.mini_batches,
                results_dir=x.results_dir,
            )
            found += [one] if steps else []
    return found


def measures(config: Reproduce) -> list[Measure]:
    return [one for s in config.sweeps for one in measures_of(config, s, runs_of(config, s))]
