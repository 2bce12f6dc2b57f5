"""A made-up rerun of a paper: the run folders that its cluster jobs leave, with counts that
`Numbers` gives, made from papers/<p>/published and from the paper's sweeps.

Nothing is known of a paper here but what its configurations say. The curve of a training is low
except at its best step, which is one of ours, so that a wrong step or a row of the curve in a
printed cell is seen.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol
from unittest.mock import patch

import numpy as np
import pandas as pd

from common.backends import snapshots
from common.comparison.published import published
from common.comparison.spec import Spec, spec_of
from common.config.compose import compose
from common.config.files import ROOT
from common.config.strict import strict
from common.datasets.prompts import stated
from common.evaluation import checkpoints
from common.evaluation.config import Evaluate
from common.evaluation.run import keep_checkpoint
from common.evaluation.store import TENS
from common.experiment import Experiment
from common.losses.contributions import PREFIX, SHARES
from common.metrics.passk import report
from common.results.columns import COLUMNS
from common.results.files import write, write_csv, write_json
from common.results.longer import steps_of
from common.results.run import Run
from common.sweeps.measures import Measure, measures_of
from common.sweeps.plan import Reproduce, Sweep, evaluations_of, runs_of

LOW = 3.0  # percent, of the curve's ordinary steps: no printed cell is near
LOGGED = {"entropy": 0.5, "reward": 0.25, "response_length": 900.0}  # of every step
PRINTED_LOGS = {  # of a method's every step, where the paper says a number in words
    "DAPO": {"entropy": 0.08, "rollout_seconds": 100.0},  # over_sharpening App. I
    "DAPO+IAC": {"entropy": 0.22, "rollout_seconds": 100.0},
    "DAPO+IAC+DLC": {"entropy": 0.3, "rollout_seconds": 500.0},  # Sec. 3.2; its entropy is not said
}
CONTROLLED = {"alpha": 1.5, "delta": 0.7}  # of every step of fade's
UNSTATED = 240  # problems of a set whose configuration does not say how many it has: SynLogic
PEAKS = ("peak", "peak of average")
SCORED = ("exact_", "delta_NLL")  # begin the metrics of samples that a model scored


@dataclass(frozen=True)
class Of:
    """Whose numbers are asked for: a run folder at a step, and the training behind it."""

    folder: str
    trained: str
    untrained: bool
    table: str
    model: str
    method: str
    benchmark: str
    seed: int
    step: int
    below: float = 0.0  # points below the printed numbers


class Numbers(Protocol):
    """What a made-up rerun comes out with."""

    beside: float | None  # points that the steps beside the best one are below it; None: low too

    def counts(self, of: Of, passk: dict[int, float], problems: int, n: int) -> np.ndarray:
        """Right answers of n (P,). passk: the printed percent at each printed k; may be empty."""

    def value(self, of: Of, metric: str, printed: float) -> float:
        """Any other printed number."""

    def logged(self, x: Experiment) -> dict[str, float]:
        """What a training logs at every step."""


@dataclass(frozen=True)
class Rerun:
    """What was made: the paper's Spec, and each evaluation with the folder that holds it."""

    spec: Spec
    root: Path
    evaluations: list[Evaluate]


def rerun(
    root: Path,
    paper: str,
    numbers: Numbers,
    *,
    scales: tuple[str, ...],
    seeds: int = 1,
    only: Callable | None = None,
) -> Rerun:
    """Store a rerun of a paper's `scales` below `root`. only: keeps the runs for which it is
    true. seeds: of each row."""
    spec, made = spec_of(paper), []
    with quick():
        config = configured(paper)
        for sweep in [sweep for scale in scales for sweep in config.scales[scale].sweeps]:
            sweep = replace(sweep, seeds=list(range(1, seeds + 1))) if seeds > 1 else sweep
            runs = [replace(x, results_dir=str(root)) for x in runs_of(config, sweep)]
            made += one_sweep(runs, sweep, spec, numbers, only)
            for one in measures_of(config, sweep, runs):
                if only is None or any(x.run_id == one.row.trained and only(x) for x in runs):
                    measured(one, spec, numbers)
    return Rerun(spec, root, made)


@cache
def configured(paper: str) -> Reproduce:
    """The paper's sweeps, composed once, whatever the folder."""
    return strict(Reproduce, compose(paper, ["scale=cluster"], "reproduce"))


def quick() -> ExitStack:
    """Without what only a machine that may fail needs: fsync, and git's answer for every run."""
    stack = ExitStack()
    stack.enter_context(patch("os.fsync", lambda _: None))
    about = {"commit": "0" * 40, "diff_sha256": None}
    stack.enter_context(patch("common.results.run.source", lambda: about))
    return stack


def one_sweep(runs: list, sweep: Sweep, spec: Spec, numbers: Numbers, only) -> list[Evaluate]:
    wanted = [x for x in runs if only is None or only(x)]
    limits = {sweep.baselines.get(x.label) for x in wanted}
    for x in runs:
        if x.optim.steps > 0 and (x in wanted or x.label in limits):
            best = highest(x, late=x.label in sweep.baselines)
            trained(x, best, spec, numbers, last=not sweep.benchmarks)
    ids = {x.run_id for x in wanted}
    made = [e for e in evaluations_of(runs, sweep) if e.row.trained in ids]
    for e in made:
        evaluated(e, spec, numbers)
    return made


# ---- a training run


def highest(x: Experiment, *, late: bool) -> int:
    """The step at which the made-up curve is highest: the third evaluation, and, of a run whose
    compute must not exceed another's, one later, which is not to be chosen."""
    steps = [*range(x.eval.every, x.optim.steps, x.eval.every), x.optim.steps]
    return steps[min(3 if late else 2, len(steps) - 1)]


def trained(x: Experiment, best: int, spec: Spec, numbers: Numbers, *, last: bool = False) -> None:
    """The folder of a finished training: curve, counts, models. Where the printed cells are of the
    curve's peak, the peak has their numbers; where they are of its `last` step, which no evaluation
    of its own repeats, that step has them. Beside a peak the steps are `numbers.beside` lower, or,
    where that is None, one set is solved at the step before it."""
    peak = spec.steps.get(x.table) in PEAKS
    run = Run(Path(x.results_dir), x.paper, x.run_id, asdict(x))
    before = steps_of(run.path) if run.done else None
    if before is not None and before > x.optim.steps:
        return  # of a scale with more steps
    if before is not None and before < x.optim.steps:
        run.take_back(before)
    about = {"table": x.table, "model": x.model.name, "method": x.label, "seed": x.seed}
    frames = []
    steps = [*range(x.eval.every, x.optim.steps, x.eval.every), x.optim.steps]
    sets = tuple((name, stated(node) or UNSTATED) for name, node in x.data.benchmarks.items())
    for step in steps[:4] + steps[-1:] if peak else steps:  # what the others hold is not looked at
        n = x.eval.n if step == x.optim.steps else x.eval.curve_n
        ks = tuple(k for k in x.eval.k if k <= n)
        near = peak and numbers.beside is not None and abs(step - best) == x.eval.every
        if near or step == (best if peak else x.optim.steps if last else None):
            tables = []
            for name, problems in sets:
                of = Of(x.run_id, x.run_id, False, benchmark=name, step=step, **about)
                passk = printed_passk(x, spec, name, n)
                of = replace(of, below=numbers.beside if near else 0.0)
                tables.append(table(name, numbers.counts(of, passk, problems, n), n))
            counts = pd.concat(tables).to_csv(index=False, lineterminator="\n")
            rows = report(pd.concat(tables), list(ks))
        else:
            # the second highest at the third evaluation, where a limited run is to be read
            share = LOW + (2 if step == best else step == 3 * x.eval.every)
            alone = peak and numbers.beside is None and step == x.eval.every * 2
            counts, rows = flat(sets, n, share, ks, solved=sets[-1][0] if alone else None)
        sampled = {"metric": "token_entropy", "unit": "nats", "value": LOGGED["entropy"]}
        entropy = rows[rows["metric"] == "pass@1"].assign(**sampled, k=None, stderr=None)
        rows = pd.concat([rows, entropy], ignore_index=True)
        rows = rows.assign(**about, step=step, run_id=x.run_id)[COLUMNS]
        write(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
        write_csv(run.path / "eval" / f"step-{step:05d}.csv", rows)
        frames.append(rows)
    kept = [snapshots.folder(run.path, step) for step in snapshots.steps(x)]
    for folder in (*kept, run.path / "model"):
        write(folder / "config.json", "{}")
    write(run.path / "counts.csv", counts)
    active = {"benchmark": "training", "metric": "active_groups", "value": 50.0, "unit": "percent"}
    active = pd.DataFrame([active | about | {"step": x.optim.steps, "run_id": x.run_id}])
    write_csv(run.path / "metrics.csv", pd.concat([*frames, active.reindex(columns=COLUMNS)]))
    write(run.path / "metrics.jsonl", log(x, numbers.logged(x)))
    run.finish()


def log(x: Experiment, values: dict[str, float]) -> str:
    """The lines of a training's metrics.jsonl."""
    steps = sorted({1, max(1, x.optim.steps // 2), x.optim.steps})
    lines = [values | {"step": step} for step in steps]
    if x.covariances:
        lines = [values | {"step": at} | held(at) for at in (1, 50, 51, x.optim.steps)]
    return "".join(json.dumps(row) + "\n" for row in lines)


def logged(paper: str, method: str) -> dict[str, float]:
    """What a made-up training logs at every step."""
    of_paper = {"over_sharpening": PRINTED_LOGS.get(method, {}), "fade": CONTROLLED}
    return LOGGED | of_paper.get(paper, {})


def held(step: int) -> dict[str, float]:
    """What a step logs of its covariances, held by fewer tokens the later it is."""
    power = {1: 0.5, 50: 0.25}.get(step, 0.01)
    return {f"{PREFIX}{share:g}": share**power for share in SHARES}


def printed_passk(x: Experiment, spec: Spec, benchmark: str, n: int) -> dict[int, float]:
    """The printed numbers of one set of a training's curve, by k; of a set that its row does not
    have, a half of all samples."""
    wanted = targets(spec, x.table, x.label, x.model.name, benchmark)
    named = {spec.metrics.get(f"pass@{k}", f"pass@{k}"): k for k in x.eval.k if k <= n}
    found = {k: wanted[name] for name, k in named.items() if name in wanted}
    return found or {k: 50.0 + k for k in (1, n)}


@cache
def flat(
    sets: tuple, n: int, share: float, ks: tuple[int, ...], solved: str | None = None
) -> tuple[str, pd.DataFrame]:
    """counts.csv of sets (name, problems) with so many percent of all samples right, all of the
    set `solved`, and its rows."""
    frames = []
    for benchmark, problems in sets:
        right = round((1 if benchmark == solved else share / 100) * problems * n)
        c = np.full(problems, right // problems)
        c[: right % problems] += 1
        frames.append(table(benchmark, c, n))
    counts = pd.concat(frames)
    return counts.to_csv(index=False, lineterminator="\n"), report(counts, list(ks))


def table(benchmark: str, c: np.ndarray, n: int) -> pd.DataFrame:
    ids = [f"{benchmark}-{i}" for i in range(len(c))]
    return pd.DataFrame(
        {"benchmark": benchmark, "problem_id": ids, "n": n, "c": c, "distinct": np.minimum(c, 1)}
    )


# ---- an evaluation


def evaluated(e: Evaluate, spec: Spec, numbers: Numbers) -> None:
    """The folder of a finished evaluation, as `common.evaluation.run.evaluate` leaves it."""
    row, step = e.row, 0
    if row.checkpoint != 0:
        home = Path(e.results_dir) / row.paper
        baseline = home / row.baseline if row.baseline else None
        given = (row.checkpoint, baseline, None, row.steps)
        taken = checkpoints.choose(home / row.trained, *given)
        step = taken.step
    run = Run(Path(e.results_dir), row.paper, e.path.name, e.identity() | {"scope": row.scope})
    if row.checkpoint != 0:
        keep_checkpoint(run, taken)
    wanted = targets(spec, row.table, row.method, e.label, row.benchmark, step)
    about = {"table": row.table, "model": e.label, "method": row.method, "seed": row.seed}
    about |= {"step": step, "run_id": run.run_id}
    of = Of(
        folder=run.run_id,
        trained=row.trained,
        untrained=row.checkpoint == 0,
        table=row.table,
        model=e.label,
        method=row.method,
        benchmark=row.benchmark,
        seed=row.seed,
        step=step,
    )
    problems = stated(e.eval.prompts) or UNSTATED
    rare = e.eval.rare_share is not None and row.checkpoint != 0
    metrics = {"delta_NLL_rare": "delta_NLL_rare"} if rare else spec.metrics
    scored = rare or e.scores is not None
    others = [
        {"benchmark": row.benchmark, "metric": ours, "stderr": 0.05}
        | {"value": numbers.value(of, printed, wanted.get(printed, LOGGED["entropy"]))}
        | {"n_problems": 200 if rare else problems, "n_samples": 1263 if rare else e.n}
        for ours, printed in metrics.items()
        if ours.startswith(SCORED) == scored and (scored or printed in wanted)
    ]
    if scored:
        frame = pd.DataFrame(others).assign(**about)
        write_csv(run.path / "metrics.csv", frame.reindex(columns=[*COLUMNS, "low", "high"]))
        run.finish()
        return
    ks = [k for k in sorted({*(2**i for i in range(e.n.bit_length())), *TENS}) if k <= e.n]
    passk = {int(m.removeprefix("pass@")): v for m, v in wanted.items() if m.startswith("pass@")}
    passk = {k: v for k, v in sorted(passk.items()) if k <= e.n}
    counts = table(row.benchmark, numbers.counts(of, passk, problems, e.n), e.n)
    rows = report(counts, ks)
    average = rows[rows["k"] == 1].assign(metric=f"avg@{e.n}", k=e.n)
    frame = pd.concat([rows, average, pd.DataFrame(others)], ignore_index=True).assign(**about)
    write_json(run.path / "problems.json", {})
    write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
    write_csv(run.path / "counts.csv", counts)
    write_csv(run.path / "metrics.csv", frame.reindex(columns=[*COLUMNS, "low", "high"]))
    run.finish()


# ---- a measure of kept models


def measured(one: Measure, spec: Spec, numbers: Numbers) -> None:
    """The folder of a finished measure with every printed number that it stands for, alone or with
    other runs."""
    row, run = one.row, Run(Path(one.results_dir), one.row.paper, one.path.name, one.config())
    about = {"table": row.table, "model": one.model.name, "method": row.method, "seed": row.seed}
    about |= {"step": one.steps[-1], "run_id": run.run_id}
    of = Of(
        folder=run.run_id,
        trained=row.trained,
        untrained=False,
        table=row.table,
        model=one.model.name,
        method=row.method,
        benchmark=row.benchmark,
        seed=row.seed,
        step=one.steps[-1],
    )
    wanted = targets(spec, row.table, row.method, one.model.name, "")
    ours = {printed: metric for metric, printed in spec.metrics.items()}
    wanted = together(spec, row, one.model.name) | wanted
    rows = [
        about | {"metric": ours.get(metric, metric), "value": numbers.value(of, metric, value)}
        for metric, value in wanted.items()
    ]
    write_csv(run.path / "metrics.csv", pd.DataFrame(rows).reindex(columns=COLUMNS))
    run.finish()


def together(spec: Spec, row, model: str) -> dict[str, float]:
    """What a run has of the printed numbers that it makes with others: the first of them has the
    least, the others the largest, and all the mean."""
    found: dict[str, float] = {}
    for one in spec.joined:
        printed = dict(cells(spec.paper).get((one.table, model, one.method, ""), ()))
        if (row.table, row.method) not in one.of or one.metric not in printed:
            continue
        first = one.of[0] == (row.table, row.method)
        metric = spec.metrics.get(one.of_metric, one.of_metric)
        if one.how == "mean" or first == (one.how == "min"):
            found[metric] = printed[one.metric]
        found.setdefault(metric, printed[one.metric])
    return found


def targets(
    spec: Spec, table: str, method: str, model: str, benchmark: str, step: int | None = None
) -> dict[str, float]:
    """metric -> printed value of every printed cell that these rows of a run stand for: those of
    its own row, and of the rows that are the same run; a cell that names the step goes first."""
    names = [(table, method)]
    same = [one for one in spec.same_runs if (one.of_table, one.of_method) == names[0]]
    names += [(one.table, one.method) for one in same]
    found: dict[str, float] = {}
    for one in same:  # printed under another name
        if one.benchmark:
            return dict(cells(spec.paper)[one.table, model, one.method, one.benchmark])
    means = [mean for mean, members in spec.averages.items() if benchmark in members]
    for name in (f"{benchmark}, step {step}", benchmark, *means):
        if name in means and found:
            break  # a part that is printed itself; of parts that are not, each is their mean
        for of_table, label in names:
            for metric, value in cells(spec.paper).get((of_table, model, label, name), ()):
                found.setdefault(metric, value)
    return found


@cache
def cells(paper: str) -> dict[tuple, list[tuple[str, float]]]:
    """(table, model, method, benchmark) -> its printed (metric, value)."""
    frame = published(ROOT / "papers" / paper / "published")
    found: dict[tuple, list] = {}
    for one in frame.itertuples():
        benchmark = "" if pd.isna(one.benchmark) else one.benchmark
        key = (one.table, one.model, one.method, benchmark)
        found.setdefault(key, []).append((one.metric, one.value))
    return found
