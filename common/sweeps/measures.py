"""What a paper measures of the models that a training kept: a job of its own on a cluster, after
the training, without a GPU. It leaves a run folder of the paper, whose rows the comparison gathers.
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
from common.sweeps.plan import Reproduce, Sweep, runs_of


@dataclass(frozen=True)
class Measure:
    """One such job."""

    run: str  # dotted path of run(measure): it resumes by itself, and ends with DONE
    takes: str  # (measure, training, profile) -> what it will take (cost.Estimate)
    row: Row  # whose numbers: a training's
    model: Model  # what the training started from
    steps: list[PositiveInt]  # of the training, whose models are measured
    updates: PositiveInt  # optimiser steps of such a step
    results_dir: Folder

    @property
    def path(self) -> Path:
        """The run folder."""
        readable = f"{self.row.trained}-{self.row.benchmark}"
        return Path(self.results_dir) / self.row.paper / run_name(readable, self.identity())

    def identity(self) -> dict:
        """All that the numbers depend on."""
        row = {key: one for key, one in asdict(self.row).items() if key not in SHOWN_IN}
        return {"measure": self.run, "row": row, "steps": self.steps, "updates": self.updates}

    def config(self) -> dict:
        """What the run folder keeps of it."""
        return self.identity() | {"scope": self.row.scope, "row": asdict(self.row)}

    def weights(self, step: int) -> Path:
        """The folder of the model of one of the steps. Raises UserError where it is not there."""
        run = Path(self.results_dir) / self.row.paper / self.row.trained
        kept = snapshots.folder(run, step)
        folder = kept if kept.is_dir() else run / "model"
        last = kept.is_dir() or step == self.row.checkpoint
        require(last and folder.is_dir(), "measures.steps", step, f"{run} has no model of it")
        return folder


def measures_of(config: Reproduce, sweep: Sweep, runs: list[Experiment]) -> list[Measure]:
    """Those of a sweep's trainings. Raises UserError for a measure that the paper does not have,
    and for a step whose model a training does not keep."""
    found = []
    for name, rows in sweep.measures.items():
        remedy = f"use some of {', '.join(config.measures)}"
        require(name in config.measures, f"{sweep.table}.measures", name, remedy)
        named = {row.rpartition("/")[2]: steps for row, steps in rows.items()}
        for x in runs:
            steps = named.get(x.name, [])
            lost = [one for one in steps if one not in (*snapshots.steps(x), x.optim.steps)]
            remedy = f"{x.name} keeps no model of them: add keep_at={lost}"
            require(not lost, f"{sweep.table}.measures.{name}", lost, remedy)
            row = Row(
                paper=x.paper,
                scope=x.scope,
                table=x.table,
                method=x.label,
                benchmark=name,
                seed=x.seed,
                trained=x.run_id,
                checkpoint=x.optim.steps,
                baseline=None,
            )
            one = Measure(
                run=config.measures[name]["run"],
                takes=config.measures[name]["takes"],
                row=row,
                model=x.model,
                steps=steps,
                updates=x.optim.mini_batches,
                results_dir=x.results_dir,
            )
            found += [one] if steps else []
    return found


def measures(config: Reproduce) -> list[Measure]:
    """Those of every training of the scale."""
    return [one for s in config.sweeps for one in measures_of(config, s, runs_of(config, s))]
