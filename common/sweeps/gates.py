"""Gates: what the start model of some rows (experiments) must measure before they train.

A gate is a job on a cluster, without a GPU. It reads an evaluation of that model on the rows'
training prompts and others on benchmarks. Where a number is not as expected the job fails, and the
trainings that wait for it do not start. The paper has the function that compares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from common.backends.solve_rates import on_prompts
from common.config.schema import Folder
from common.datasets.solve_rate import unfiltered
from common.evaluation.config import Evaluate, run_name
from common.experiment import Experiment
from common.sweeps.plan import Reproduce, Sweep, evaluations_of, runs_of


@dataclass(frozen=True)
class Gate:
    run: str  # dotted path of run(gate), which leaves DONE at its end or raises UserError
    name: str
    paper: str
    results_dir: Folder
    model: str  # the folder of the model
    prompts: str  # run folder of the evaluation on training prompts, below results/evaluations
    benchmarks: dict[str, str]  # printed name -> run folder of the evaluation
    near: dict[str, list[float]]  # number -> expected value, half a unit of its last digit
    above: dict[str, float]  # number -> what it must exceed
    remedy: str

    @property
    def path(self) -> Path:
        return Path(self.results_dir) / self.paper / run_name(self.name, self.identity())

    def identity(self) -> dict:
        names = ("name", "prompts", "benchmarks", "near", "above")
        return {"gate": {name: getattr(self, name) for name in names}}


class Gated(NamedTuple):
    """A gate with what it reads, and the names of the rows that wait for it."""

    gate: Gate
    samples: Evaluate
    evaluations: list[Evaluate]
    of: Experiment  # the row that evaluates the start model, untrained
    rows: set[str]


def gates(config: Reproduce) -> list[Gated]:
    """Return the gates of the paper that rows of this scale wait for."""
    trained = {row for sweep in config.sweeps for row in sweep.rows}
    found = []
    for name, one in config.gates.items():
        waiting = trained.intersection(config.matching_rows(one.rows)) - {one.of}
        if not waiting:
            continue
        sweep = Sweep(one.table, [one.of], [1], [], benchmarks=one.benchmarks, n=one.n)
        (x,) = runs_of(config, sweep)
        samples = on_prompts(x, unfiltered(x.data.train) | {"size": one.prompts}, one.samples)
        made = evaluations_of([x], sweep)
        gate = Gate(
            run=one.run,
            name=f"gate-{name}",
            paper=config.paper,
            results_dir=config.root,
            model=str(x.model.path),
            prompts=samples.path.name,
            benchmarks={e.row.benchmark: e.path.name for e in made},
            near=one.near,
            above=one.above,
            remedy=one.remedy,
        )
        names = {row.rpartition("/")[2] for row in waiting}
        found.append(Gated(gate, samples, made, x, names))
    return found
