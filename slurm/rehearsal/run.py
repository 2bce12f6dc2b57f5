"""The rehearsal of a row (experiment): compose, stub, submit, wait, check, report."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from common.backends.solve_rates import measurements
from common.config.files import ROOT
from common.datasets.prompts import stated
from common.errors import UserError
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.models.size import Size
from common.sweeps.assumptions import assumptions, memory_network, model_size
from common.sweeps.gates import Gate, Gated
from common.sweeps.measures import Measure, measures_of
from common.sweeps.plan import Reproduce, evaluations_of
from common.sweeps.profiles import Profile, on
from common.sweeps.smallest import SMALLEST
from slurm import status, submit
from slurm.attempts import attempts
from slurm.rehearsal import check, data, model, rows
from slurm.rehearsal.stub import (
    EVALUATE,
    Most,
    differences,
    hollow_evaluations,
    hollow_gate,
    hollow_sweep,
    reason,
    scorable,
    stubbed,
)

PATIENCE = 3600  # seconds for all jobs
SHARED = ROOT.parent / "shared" / "data"  # copies of public sets, where the hub is out of reach


def rehearse(
    asked: Reproduce, row: str, *, profile: Profile, most: Most, say: Callable = print
) -> None:
    """Run one row of the scale as its jobs would, on a stand-in for its model. Print what was of
    true size, what was stubbed and what each job took. After that, raises UserError if a job failed
    or something that the row should give is missing."""
    start, root = time.monotonic(), Path(asked.root) / "rehearsal"
    home, cache = root / asked.paper, root / "cache"
    shutil.rmtree(home, ignore_errors=True)
    row = row or SMALLEST[asked.paper]
    sweep = rows.chosen(asked, row)
    true_runs, true_evaluations, true_gates = rows.true_size(asked, sweep)
    profile = replace(profile, setup=[*profile.setup, f"export RLVR_DATA={cache / 'data'}"])
    size, path = model_size(true_runs[0], assumptions()), str(true_runs[0].model.path)
    width = max(model.width(x) for x in true_runs)
    folder = str(model.stand_in(path, size, cache, width=width))
    memory = _memory(true_runs[0], size, cache)
    nodes = [n for x in true_runs for n in (x.data.train, *x.data.benchmarks.values())]
    nodes += [e.eval.prompts for e in true_evaluations]
    nodes += [e.eval.prompts for one in true_gates for e in (one.samples, *one.evaluations)]
    sources = data.prepare(nodes, cache / "data", SHARED)
    os.environ["RLVR_DATA"] = str(cache / "data")
    if "ifeval" in sources and data.sentences(cache / "nltk"):
        sources["NLTK's punkt_tab"] = "stub: an empty one"
        profile = replace(profile, setup=[*profile.setup, f"export NLTK_DATA={cache / 'nltk'}"])
    threads = max(1, (os.cpu_count() or 1) // profile.nodes)

    def hollow(x: Experiment) -> Experiment:
        given = {"model": folder, "memory": memory, "results_dir": str(root)}
        return stubbed(x, **given, most=most, threads=threads)

    runs = [hollow(x) for x in true_runs]
    kept = hollow_sweep(sweep)
    made = evaluations_of(runs, kept) if sweep.benchmarks else []
    every = hollow_evaluations(made, most=most)
    evaluations = [e for e in every if scorable(e, most=most)]
    measures = measures_of(asked, kept, runs)
    gates = [hollow_gate(one, hollow(one.of), most=most) for one in true_gates]
    for line in sizes(true_runs, runs, true_evaluations, every, most, sources):
        say(line)
    for line in _asked(true_gates, gates):
        say(line)
    refused = [line for x in true_runs for line in check.storage(x)]
    if refused:
        raise UserError("\n".join(refused))
    began = time.monotonic()
    tuned = [on(x, profile, {}) for x in runs]
    where: dict = {"paper": asked.paper, "profile": profile, "root": root}
    submit.submit(tuned, evaluations, None, measures, gates, **where, say=say)
    jobs = _ended(root, asked.paper)
    say(f"\n{'seconds':>8} {'state':10} job   ({time.monotonic() - began:.0f} s in all)")
    for job in jobs:
        say(f"{_seconds(root, asked.paper, job.key):8.0f} {job.state:10} {job.kind} {job.key}")
    failed = [job for job in jobs if job.state != "done"]
    for job in failed:
        say("\n".join([f"\n{job.state.upper()} {job.key} {job.detail}", *job.log]))
    before = [e for x in runs for e in measurements(x)]
    before += [e for one in gates for e in (one.samples, *one.evaluations)]
    beside: list[Measure | Gate] = [*measures, *(one.gate for one in gates)]
    cells = not isinstance(sweep.checkpoint, int)
    if not cells:
        say(f"cells not checked: they are of step {sweep.checkpoint}, which the stub does not have")
    missing = [] if failed else check.lacking(root, runs, evaluations, before, beside, cells)
    for line in missing:
        say(f"missing: {line}")
    if failed or missing:
        raise UserError(
            f"rehearsal of {asked.paper} {row}: {len(failed)} of {len(jobs)} jobs failed, "
            f"{len(missing)} results are missing; logs and results are in {home}"
        )
    say(
        f"rehearsal of {asked.paper} {row} passed in {time.monotonic() - start:.0f} s: "
        f"{len(jobs)} jobs, every expected {'cell and ' if cells else ''}claim. Figures: the "
        "comparison draws none"
    )


def _memory(x: Experiment, size: Size, cache: Path) -> str | None:
    """Return the stand-in for the checkpoint of DLC's memory network; None if the method names
    none."""
    network = memory_network(x, size, assumptions())
    if network is None or x.method.sampler.path is None:
        return None
    return str(model.stand_in(x.method.sampler.path, network, cache, silent=True))


def sizes(
    true_runs: list[Experiment],
    runs: list[Experiment],
    true_evaluations: list[Evaluate],
    evaluations: list[Evaluate],
    most: Most,
    sources: dict[str, str],
) -> list[str]:
    """Return lines on what is stubbed, with its true value, and then on the sizes that are the
    row's own."""
    lines = []
    for true, x in zip(true_runs, runs, strict=True):
        lines.append(f"\n== {x.name}: stubbed")
        changed = differences(asdict(true), asdict(x))
        for key in sorted(changed):
            was, now = (str(value)[-50:] for value in changed[key])
            lines.append(f"  {key:24} {now} for {was}: {reason(key)}")
        lines.append(f"== {x.name}: its own")
        for key, value in _own(x).items():
            if key not in changed:
                lines.append(f"  {key:24} {value}")
    lines.append("== evaluations")
    for true, e in zip(true_evaluations, evaluations, strict=True):
        said = f"{stated(e.eval.prompts) or '?'} problems, at most {e.max_tokens} tokens"
        cut = "" if e.n == true.n else f"  STUBBED: {EVALUATE['n']}, {true.n} is the row's"
        if e.scores:
            said += ", scored"
            cut = cut if scorable(e, most=most) else "  STUBBED: left out, more than the samples"
        lines.append(f"  {e.row.benchmark:24} {said}, n={e.n}{cut}")
    lines.append("== data")
    return [*lines, *(f"  {name:24} {source}" for name, source in sources.items())]


def _asked(true: list[Gated], hollow: list[Gated]) -> list[str]:
    """Return a line for each gate with the numbers that it asks for. In a rehearsal any value
    passes."""
    lines = ["== gates: any number passes, the stand-in's is no paper's"] if true else []
    for was, now in zip(true, hollow, strict=True):
        whole = {*was.gate.near, *was.gate.above}
        left = whole - {*now.gate.near, *now.gate.above}
        cut = f"  STUBBED: without {', '.join(sorted(left))}, of more samples" if left else ""
        lines.append(f"  {was.gate.name:24} {', '.join(sorted(whole - left))}{cut}")
    return lines


def _own(x: Experiment) -> dict[str, object]:
    whole = asdict(x)
    groups = ("sampling", "optim", "eval")
    found = {f"{name}.{key}": value for name in groups for key, value in whole[name].items()}
    problems = {name: stated(node) for name, node in x.data.benchmarks.items()}
    return found | {"method": x.method.name, "benchmarks": problems}


def _ended(root: Path, paper: str) -> list[status.Cell]:
    """Wait until no job waits or runs any more, and return the cells of all jobs. Raises UserError
    after PATIENCE seconds."""
    end = time.monotonic() + PATIENCE
    while True:
        cells = status.cells(root, paper)
        if not any(cell.queued for cell in cells):
            return cells
        if time.monotonic() > end:
            status.cancel(root, paper)
            raise UserError(f"rehearsal: not done in {PATIENCE} s\n{status.show(root, paper)}")
        time.sleep(2)


def _seconds(root: Path, paper: str, key: str) -> float:
    """Return the seconds of all attempts of a job that have an end."""
    lines = [row for path in root.glob(f"{paper}/cluster/*/runs/{key}") for row in attempts(path)]
    starts = [row["start"] for row in lines if "start" in row]
    ends = [row["end"] for row in lines if "end" in row]
    return sum(ends) - sum(starts[: len(ends)])
