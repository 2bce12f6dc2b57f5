"""Gates: what the start model of some rows (experiments) must measure before they train.

A gate is a job on a cluster, without a GPU. It reads an evaluation of that model on the rows'
training prompts and others on benchmarks. Where a number is not as expected the job fails, and the
trainings that wait for it do not start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from common.backends.solve_rates import on_prompts
from common.config.schema import Folder
from common.datasets.solve_rate import unfiltered
from common.errors import UserError
from common.evaluation.config import Evaluate, run_name
from common.experiment import Experiment
from common.results.files import read_csv, write_csv
from common.results.run import Run
from common.sweeps.plan import Reproduce, Sweep, evaluations_of, runs_of

NOISE = 1.96 * 2**0.5  # standard errors over problems: 95 % of differences of two evaluations
NAMES = {"pass@1": "solve_rate", "token_entropy_per_response": "entropy"}  # on the prompts


@dataclass(frozen=True)
class Gate:
    """One gate job. A benchmark's numbers are named "BENCHMARK pass@K"; the numbers on the training
    prompts are "solve_rate" (percent) and "entropy" (nats: as a controller sees it, the mean over
    responses of the token mean of -log p)."""

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
        """The run folder."""
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
        waiting = trained.intersection(config.named(one.rows)) - {one.of}
        if not waiting:
            continue
        sweep = Sweep(one.table, [one.of], [1], [], benchmarks=one.benchmarks, n=one.n)
        (x,) = runs_of(config, sweep)
        samples = on_prompts(x, unfiltered(x.data.train) | {"size": one.prompts}, one.samples)
        made = evaluations_of([x], sweep)
        gate = Gate(
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


def judge(x: Gate) -> Path:
    """Compare the measured numbers with the expected ones, write both to measured.csv, mark the run
    folder as finished and return it. Raises UserError with every number that is not as expected,
    and the remedy; the folder is then not finished."""
    run = Run(Path(x.results_dir), x.paper, x.path.name, asdict(x))
    if run.done:
        return run.path
    table = pd.DataFrame([_compared(x, name, *pair) for name, *pair in _measured(x)])
    table = table[table["expected"] != ""]
    write_csv(run.path / "measured.csv", table)
    print(table.to_string(index=False), flush=True)
    lacking = sorted({*x.near, *x.above} - set(table["number"]))
    bad = [
        f"{row.number}={row.measured:.4g} (expected {row.expected})"
        for row in table[~table["passes"]].itertuples()
    ]
    bad += [f"{name}=None (not measured)" for name in lacking]
    if bad:
        run.close()
        raise UserError(f"{x.name}: {'; '.join(bad)} (model {x.model}); {x.remedy}")
    run.finish()
    return run.path


def _measured(x: Gate) -> Iterator[tuple[str, float, float]]:
    """Yield (name of a number, its value, its standard error over problems)."""
    places = {"": Path(x.results_dir) / "evaluations" / x.prompts}
    places |= {f"{n} ": Path(x.results_dir) / x.paper / run for n, run in x.benchmarks.items()}
    for prefix, folder in places.items():
        for row in read_csv(folder / "metrics.csv").itertuples():
            name = NAMES.get(row.metric) if not prefix else row.metric
            if name is not None:
                yield f"{prefix}{name}", row.value, row.stderr


def _compared(x: Gate, name: str, value: float, stderr: float) -> dict:
    passes, expected = True, []
    if name in x.near:
        center, digit = x.near[name]
        half = NOISE * stderr + digit
        passes &= abs(value - center) <= half
        expected.append(f"{center:g} ± {half:.2g}")
    if name in x.above:
        passes &= value > x.above[name]
        expected.append(f"above {x.above[name]:g}")
    about = {"number": name, "measured": value, "stderr": stderr}
    return about | {"expected": " and ".join(expected), "passes": passes}
