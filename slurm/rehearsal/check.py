"""Checks of a rehearsal: whether verl's store takes a row of true size, and what is missing of the
results that the rehearsal must have left."""

import csv
from pathlib import Path

from common.backends.verl import config
from common.comparison.cluster_figures import drawn
from common.datasets.prompts import stated
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.results.collect import verify
from common.results.files import read_jsonl
from common.sweeps.gates import Gate
from common.sweeps.measures import Measure
from slurm.rehearsal.stub import problems


def storage(x: Experiment) -> list[str]:
    """Return a line if verl's own store, as our configuration makes it, does not take the samples
    of a step or of an evaluation of `x` in true size; else an empty list. The rehearsal itself
    draws only a part of these samples."""
    from transfer_queue.storage.simple_storage import StorageUnitData

    place = config.Place("cpu", 1, 1, None, Path("work"), "model")
    verls = config.compose(config.settings(x, place, 1, 1 << 20, {}))
    step = x.sampling.prompts * x.sampling.group_size * x.sampling.dynamic_batches
    samples = range(max(step, problems(x) * max(x.eval.n, x.eval.curve_n)))
    store = StorageUnitData(verls.transfer_queue.backend.SimpleStorage.total_storage_size)
    try:
        store.put_data({"sample": list(samples)}, [str(i) for i in samples])
    except ValueError as error:
        return [f"{x.name}: verl's store does not take its {len(samples):,} samples: {error}"]
    return []


def lacking(
    root: Path,
    runs: list[Experiment],
    evaluations: list[Evaluate],
    before: list[Evaluate],
    beside: list[Measure | Gate],
    cells: bool,
) -> list[str]:
    """Return a line for each run, sample count, figure, cell (if `cells`) and claim that is
    missing; empty if none is. `before` are the evaluations that trainings and gates have waited
    for, `beside` the measures and gates."""
    found = [line for x in runs for line in _training(root / x.paper / x.run_id, x)]
    found += [line for e in (*before, *evaluations) for line in _evaluation(e)]
    found += [line for one in beside for line in _finished(one.path)]
    home = root / runs[0].paper
    for x in runs if cells else ():
        printed = {e.row.benchmark for e in evaluations if e.row.trained == x.run_id}
        found += _cells(home / "cells.csv", x, printed or set(x.data.benchmarks))
    for one in drawn(root, runs[0].paper):
        if not one.left_out and not (home / "figures" / f"{one.name}.png").exists():
            found.append(f"{one.name}: said to be drawn and not there")
    return found + _claims(home / "claims.csv", runs[0].paper)


def _training(run: Path, x: Experiment) -> list[str]:
    if not (run / "DONE").exists():
        return [f"{run.name}: no result"]
    found = verify(run)
    if x.optim.steps:
        steps = [row["step"] for row in read_jsonl(run / "metrics.jsonl")]
        if steps != list(range(1, x.optim.steps + 1)):
            found.append(f"{run.name}: its curve has steps {steps}, of {x.optim.steps}")
        if not (run / "model" / "config.json").exists():
            found.append(f"{run.name}: no exported model")
    for name, node in x.data.benchmarks.items():
        number = stated(node)
        found += _counted(run / "counts.csv", name, number, x.eval.n)
    return found


def _evaluation(e: Evaluate) -> list[str]:
    lost = _finished(e.path)
    if e.scores or lost:
        return lost
    name = e.row.benchmark if e.row else e.eval.name
    return _counted(e.path / "counts.csv", name, stated(e.eval.prompts), e.n)


def _finished(path: Path) -> list[str]:
    return verify(path) if (path / "DONE").exists() else [f"{path.name}: no result"]


def _counted(file: Path, benchmark: str, problems: int | None, n: int) -> list[str]:
    with open(file, newline="") as lines:
        counts = [int(row["n"]) for row in csv.DictReader(lines) if row["benchmark"] == benchmark]
    if set(counts) == {n} and len(counts) == (problems or len(counts)):
        return []
    seen = f"{len(counts)} problems with n={sorted(set(counts))}"
    return [f"{file.parent.name}: {benchmark} has {seen}, not {problems or 'any'} with n={n}"]


def _cells(file: Path, x: Experiment, benchmarks: set[str]) -> list[str]:
    """Return a line for each benchmark that the paper prints for this row and whose cell has no
    rerun."""
    if not file.exists():
        return [f"{file}: no comparison"]
    own = {"table": x.table, "model": x.model.name, "method": x.label}
    with open(file, newline="") as lines:
        rows = [r for r in csv.DictReader(lines) if all(r[k] == v for k, v in own.items())]
    printed = {row["benchmark"] for row in rows} & benchmarks
    filled = {row["benchmark"] for row in rows if row["rerun"]}
    if not printed:
        return [f"{file.name}: the paper prints no cell of {own}"]
    return [f"{file.name}: no rerun of {own}, {name}" for name in sorted(printed - filled)]


def _claims(file: Path, paper: str) -> list[str]:
    from common.claims.judge import load
    from common.config.files import ROOT

    stated_ = {claim["id"] for claim in load(ROOT / "papers" / paper / "claims.yaml")}
    if not file.exists():
        return [f"{file}: no verdicts"]
    with open(file, newline="") as lines:
        judged = {row["id"] for row in csv.DictReader(lines)}
    return [f"{file.name}: claim {name} is not judged" for name in sorted(stated_ - judged)]
