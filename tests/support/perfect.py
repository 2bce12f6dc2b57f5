"""A paper's perfect rerun: the run folders that its cluster jobs would leave if every number came
out as printed, built from papers/<p>/published and the paper's sweeps.

Apart from PRINTED_LOGS and CONTROLLED, this module knows only what a paper's configurations state.
The curve of a training is low except at its best step, which we choose, so that a wrong step, or a
row of the curve in a printed cell, is noticed.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import yaml
from scipy.optimize import linprog

from common.backends import snapshots
from common.comparison.published import naming_runs, other_names, published
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
from common.losses.contributions import PERCENTILES, PREFIX, SHARES
from common.metrics.passk import estimate, estimator, report
from common.results.columns import COLUMNS
from common.results.files import write, write_csv
from common.results.longer import steps_of
from common.results.run import Run
from common.sweeps.chosen import changed
from common.sweeps.measures import Measure, measures_of
from common.sweeps.plan import Reproduce, evaluations_of, runs_of

LOW = 3.0  # percent right at the curve's ordinary steps: no printed cell is near
LOGGED = {"entropy": 0.5, "reward": 0.25, "response_length": 900.0}  # at every step
PRINTED_LOGS = {  # at every step of a method for which the text of the paper states a number
    "DAPO": {"entropy": 0.08, "rollout_seconds": 100.0},  # over_sharpening App. I
    "DAPO+IAC": {"entropy": 0.22, "rollout_seconds": 100.0},
    "DAPO+IAC+DLC": {"entropy": 0.3, "rollout_seconds": 500.0},  # Sec. 3.2; its entropy is not said
}
CONTROLLED = {"alpha": 1.5, "delta": 0.7}  # at every step of fade's runs
UNSTATED = 240  # problems of a set whose configuration does not say how many it has: SynLogic
PEAKS = ("peak", "peak of average")
SCORED = ("exact_", "delta_NLL")  # metrics of samples that a model scored begin so


@dataclass(frozen=True)
class Rerun:
    """A made-up rerun: the paper's Spec, the results folder and the evaluations in it."""

    spec: Spec
    root: Path
    evaluations: list[Evaluate]


def rerun(
    root: Path,
    paper: str,
    *,
    scales: tuple[str, ...] = ("cluster",),
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (),
    n: int = 0,
    spread: float = 0.0,
) -> Rerun:
    """Store the perfect rerun of a paper's `scales` below `root`. rows: the only ones, if given.
    seeds, n: as in `changed`. spread: points by which a seed's evaluation is above that of the seed
    before, around the printed numbers."""
    spec, made = spec_of(paper), []
    chosen.cache_clear()  # a training in this folder may have gone on
    with quick():
        config = strict(Reproduce, compose(paper, ["scale=cluster"], "reproduce"))
        asked = [changed(replace(config, scale=name), seeds=seeds, n=n) for name in scales]
        for sweep in [sweep for one in asked for sweep in one.sweeps]:
            kept = [row for row in sweep.rows if not rows or row in rows]
            runs = runs_of(config, replace(sweep, rows=kept))
            runs = [replace(x, results_dir=str(root)) for x in runs]
            for x in runs:
                if x.optim.steps > 0:
                    best = highest(x, late=x.label in sweep.baselines)
                    trained(x, best, spec, last=not sweep.benchmarks)
            for e in evaluations_of(runs, sweep):
                evaluated(e, spec, spread * (e.row.seed - float(np.mean(sweep.seeds))))
                made.append(e)
            for one in measures_of(config, sweep, runs):
                measured(one, spec)
    return Rerun(spec, root, made)


def quick():
    """A context in which run folders are written without asking git about every run."""
    about = {"commit": "0" * 40, "diff_sha256": None}
    return patch("common.results.run.source", lambda: about)


# ---- a training run


def highest(x: Experiment, *, late: bool) -> int:
    """The step at which the made-up curve is highest: the third evaluation or, for a run whose
    compute must not exceed another's (`late`), the fourth, which must not be chosen."""
    steps = [*range(x.eval.every, x.optim.steps, x.eval.every), x.optim.steps]
    return steps[min(3 if late else 2, len(steps) - 1)]


def trained(x: Experiment, best: int, spec: Spec, *, last: bool) -> None:
    """Write the folder of a finished training: curve, counts, models. If the printed cells show the
    curve's peak, the peak has their numbers. If they show the `last` step, which no separate
    evaluation repeats, that step has them. With a peak, one set is solved completely at the second
    evaluation."""
    peak = spec.steps.get(x.table) in PEAKS
    run = Run(Path(x.results_dir), x.paper, x.run_id, asdict(x))
    before = steps_of(run.path) if run.done else None
    if before is not None and before > x.optim.steps:
        return  # it is stored already, for a scale with more steps
    if before is not None and before < x.optim.steps:
        run.take_back(before)
    about = {"table": x.table, "model": x.model.name, "method": x.label, "seed": x.seed}
    frames = []
    steps = [*range(x.eval.every, x.optim.steps, x.eval.every), x.optim.steps]
    sets = tuple((name, stated(node) or UNSTATED) for name, node in x.data.benchmarks.items())
    for step in sorted({*steps[:4], steps[-1]}):  # no other step is used
        n = x.eval.n if step == x.optim.steps else x.eval.curve_n
        ks = tuple(k for k in x.eval.k if k <= n)
        if step == (best if peak else x.optim.steps if last else None):
            drawn = [counted(name, passk(x, spec, name, n), size, n) for name, size in sets]
            whole = pd.concat(drawn)
            counts, rows = whole.to_csv(index=False, lineterminator="\n"), report(whole, list(ks))
        else:
            # the third evaluation is second highest: there a run of limited compute must be read
            share = LOW + (2 if step == best else step == 3 * x.eval.every)
            alone = peak and step == x.eval.every * 2
            counts, rows = flat(sets, n, share, ks, solved=sets[-1][0] if alone else None)
        sampled = {"metric": "token_entropy", "unit": "nats", "value": LOGGED["entropy"]}
        entropy = rows[rows["metric"] == "pass@1"].assign(**sampled, k=None, stderr=None)
        rows = pd.concat([rows, entropy], ignore_index=True)
        rows = rows.assign(**about, step=step, run_id=x.run_id)[COLUMNS]
        if peak or last or x.paper == "fade":  # else nothing but the rows is read
            write(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
        write_csv(run.path / "eval" / f"step-{step:05d}.csv", rows)
        frames.append(rows)
    kept = [snapshots.folder(run.path, step) for step in snapshots.steps(x)]
    for folder in (*kept, run.path / "model"):
        write(folder / "config.json", "{}")
    active = {"benchmark": "training", "metric": "active_groups", "value": 50.0, "unit": "percent"}
    active = pd.DataFrame([active | about | {"step": x.optim.steps, "run_id": x.run_id}])
    write_csv(run.path / "metrics.csv", pd.concat([*frames, active.reindex(columns=COLUMNS)]))
    lines = [{"step": step} for step in sorted({1, max(1, x.optim.steps // 2), x.optim.steps})]
    if x.covariances:  # the later the step, the fewer tokens hold them
        held = {1: 0.2, 50: 0.15, 51: 0.01, x.optim.steps: 0.01}
        printed = {  # Table 1 of CW-GRPO, at every step
            f"covariance_{metric.partition('_')[0]}_at_{share:g}": value
            for share in PERCENTILES
            for metric, value in cells(x.paper).get(
                ("table1", x.model.name, x.label, f"percentile {share:.2%}"), ()
            )
        }
        lines = [
            {"step": at} | printed | {f"{PREFIX}{share:g}": share**power for share in SHARES}
            for at, power in held.items()
        ]
    values = logged(x.paper, x.label)
    write(run.path / "metrics.jsonl", "".join(json.dumps(values | line) + "\n" for line in lines))
    run.finish()


def logged(paper: str, method: str) -> dict[str, float]:
    """What a made-up training logs at every step."""
    of_paper = {"over_sharpening": PRINTED_LOGS.get(method, {}), "fade": CONTROLLED}
    return LOGGED | of_paper.get(paper, {})


def passk(x: Experiment, spec: Spec, benchmark: str, n: int) -> dict[str, float]:
    """The printed pass@k and best@k of one set on a training's curve. A set without printed numbers
    in that row gets 50 + k percent of pass@k at k = 1 and k = n."""
    wanted = targets(spec, x.table, x.label, x.model.name, benchmark)
    best = [name for name in spec.metrics if name.startswith("best@")]
    ours = [*(f"pass@{k}" for k in x.eval.k if k <= n), *best]
    named = {spec.metrics.get(name, name): name for name in ours}
    found = {name: wanted[printed] for printed, name in named.items() if printed in wanted}
    return found or {f"pass@{k}": 50.0 + k for k in (1, n)}


@cache
def flat(
    sets: tuple, n: int, share: float, ks: tuple[int, ...], solved: str | None = None
) -> tuple[str, pd.DataFrame]:
    """(The text of counts.csv, its result rows) for `sets` of (name, problems): `share` percent of
    a set's samples are right, and all samples of the set `solved`."""
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
    named = {"benchmark": benchmark, "problem_id": ids}
    return pd.DataFrame(named | {"n": n, "c": c, "distinct": np.minimum(c, 1)})


def counted(benchmark: str, passk: dict[str, float], problems: int, n: int) -> pd.DataFrame:
    return table(benchmark, counts_for(tuple(passk.items()), problems, n), n)


@cache
def counts_for(passk: tuple[tuple[str, float], ...], problems: int, n: int) -> np.ndarray:
    """Right answers (P,) of n samples whose metrics, in percent, come nearest to those wanted: the
    nearest mixture of counts by a linear programme, rounded to whole problems, then improved one
    problem at a time."""
    if not passk:
        return np.zeros(problems, int)
    names, wanted = [name for name, _ in passk], np.array([value for _, value in passk])
    right = np.arange(n + 1)
    values = 100 * np.column_stack([estimate(estimator(name), right, n) for name in names])
    few = np.unique(np.geomspace(1, n, 30).round().astype(int))
    grid = np.unique([0, n, *few, *(n - few), *np.linspace(0, n, 20).round().astype(int)])
    a, most = values[grid].T, np.full((len(names), 1), -1.0)
    mixture = linprog(
        c=[*np.zeros(len(grid)), 1.0],  # the largest error
        A_ub=np.block([[a, most], [-a, most]]),
        b_ub=[*wanted, *-wanted],
        A_eq=[[*np.ones(len(grid)), 0.0]],
        b_eq=[1.0],
        # a little of many counts, so that there are some of every kind to improve
        bounds=[*[(0, 1 if x in (0, n) else max(2 / problems, 0.05)) for x in grid], (0, None)],
    ).x[:-1]
    size = np.floor(problems * mixture + 1e-9).astype(int)
    rest = problems * mixture - size
    size[np.argsort(-rest, kind="stable")[: problems - size.sum()]] += 1
    c = np.repeat(grid, size)
    error = values[c].sum(0) - problems * wanted
    new = grid if len(names) > 2 else right
    while True:  # one problem's count at a time, and, where that helps no more, two
        moved = one_move(c, new, values, error)
        best = norm(moved).argmin()
        if norm(error) < 0.05 * problems:
            return c
        if norm(moved)[best] >= norm(error) - 1e-9:
            if len(names) > 2:  # a ladder: near enough, and its pairs would take seconds
                return c
            close = np.argsort(norm(moved), kind="stable")[:30]
            pairs = [norm(one_move(put(c, i, new), new, values, moved[i])).min() for i in close]
            if min(pairs) >= norm(error) - 1e-9:
                return c
            best = close[int(np.argmin(pairs))]
        c, error = put(c, best, new), moved[best]


def one_move(c: np.ndarray, new: np.ndarray, values: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The error (M, K) after every change of one problem's count to a `new` one: old x new."""
    moved = error + values[new][None] - values[np.unique(c)][:, None]
    return moved.reshape(-1, len(error))


def put(c: np.ndarray, move: int, new: np.ndarray) -> np.ndarray:
    """The counts after a change of `one_move`."""
    old, at = divmod(int(move), len(new))
    c = c.copy()
    c[np.flatnonzero(c == np.unique(c)[old])[0]] = new[at]
    return c


def norm(error: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("...i,...i", error, error))


# ---- an evaluation


chosen = cache(checkpoints.choose)  # a run has one of each of its benchmarks


def evaluated(e: Evaluate, spec: Spec, above: float = 0.0) -> None:
    """Write the folder of a finished evaluation, as `common.evaluation.run.evaluate` leaves it. Its
    pass@k are `above` the printed numbers, in points."""
    row, step = e.row, 0
    run = Run(Path(e.results_dir), row.paper, e.path.name, e.identity() | {"scope": row.scope})
    if row.checkpoint != 0:
        home = Path(e.results_dir) / row.paper
        baseline = home / row.baseline if row.baseline else None
        taken = chosen(home / row.trained, row.checkpoint, baseline, row.steps)
        step = taken.step
        keep_checkpoint(run, taken)
    wanted = targets(spec, row.table, row.method, e.label, row.benchmark, step)
    about = {"table": row.table, "model": e.label, "method": row.method, "seed": row.seed}
    about |= {"step": step, "run_id": run.run_id}
    problems = stated(e.eval.prompts) or UNSTATED
    rare = e.eval.rare_share is not None and row.checkpoint != 0
    metrics = {"delta_NLL_rare": "delta_NLL_rare"} if rare else spec.metrics
    scored = rare or e.scores is not None
    frames = [
        pd.DataFrame(
            {"benchmark": row.benchmark, "metric": ours, "stderr": 0.05}
            | {"value": wanted.get(printed, LOGGED["entropy"])}
            | {"n_problems": 200 if rare else problems, "n_samples": 1263 if rare else e.n}
            for ours, printed in metrics.items()
            if ours.startswith(SCORED) == scored and (scored or printed in wanted)
        )
    ]
    if not scored:
        ks = [k for k in sorted({*(2**i for i in range(e.n.bit_length())), *TENS}) if k <= e.n]
        named = {int(m[5:]): v + above for m, v in wanted.items() if m[:5] == "pass@"}
        named = {f"pass@{k}": v for k, v in sorted(named.items()) if k <= e.n}
        counts = counted(row.benchmark, named, problems, e.n)
        rows = report(counts, ks)
        frames = [rows, rows[rows["k"] == 1].assign(metric=f"avg@{e.n}", k=e.n), *frames]
        write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
        write_csv(run.path / "counts.csv", counts)
    frame = pd.concat(frames, ignore_index=True).assign(**about)
    write_csv(run.path / "metrics.csv", frame.reindex(columns=[*COLUMNS, "low", "high"]))
    run.finish()


# ---- a measure of kept models


def measured(one: Measure, spec: Spec) -> None:
    """Write the folder of a finished measure, with every printed number that it stands for, alone
    or with other runs."""
    row, run = one.row, Run(Path(one.results_dir), one.row.paper, one.path.name, one.config())
    about = {"table": row.table, "model": one.model.name, "method": row.method, "seed": row.seed}
    about |= {"step": one.steps[-1], "run_id": run.run_id}
    wanted = targets(spec, row.table, row.method, one.model.name, "")
    ours = {printed: metric for metric, printed in spec.metrics.items()}
    wanted = together(spec, row, one.model.name) | wanted
    rows = [about | {"metric": ours.get(name, name), "value": v} for name, v in wanted.items()]
    write_csv(run.path / "metrics.csv", pd.DataFrame(rows).reindex(columns=COLUMNS))
    run.finish()


def together(spec: Spec, row, model: str) -> dict[str, float]:
    """Metric -> value of a run for the printed numbers that it forms with other runs
    (`Spec.joined`): a minimum belongs to the first run, a maximum to the others, a mean to all."""
    found: dict[str, float] = {}
    how = {(table, metric): (by, of) for table, metric, by, of in spec.joined}
    named = naming_runs(spec.paper)
    named = named[named["several"] & (named["model"] == model)]
    for (table, _, metric), cell in named.groupby(["table", "method", "metric"], sort=False):
        of = list(zip(cell["of_table"], cell["of_method"], strict=True))
        if (row.table, row.method) not in of:
            continue
        by, of_metric = how[table, metric]
        ours, value = spec.metrics.get(of_metric, of_metric), float(cell["value"].iloc[0])
        if by == "mean" or (of[0] == (row.table, row.method)) == (by == "min"):
            found[ours] = value
        found.setdefault(ours, value)
    return found


@cache
def same_runs(paper: str) -> dict[tuple, list]:
    """(table, method) of a run -> the printed rows (table, method, benchmark) that are the same
    run, with the printed name of its one benchmark where it has one."""
    names = other_names(naming_runs(paper)).drop_duplicates(
        ["table", "method", "of_table", "of_method", "as_benchmark"]
    )
    found: dict[tuple, list] = {}
    for one in names.itertuples():
        benchmark = "" if pd.isna(one.as_benchmark) else one.as_benchmark
        of = found.setdefault((one.of_table, one.of_method), [])
        of.append((one.table, one.method, benchmark))
    return found


def targets(
    spec: Spec, table: str, method: str, model: str, benchmark: str, step: int | None = None
) -> dict[str, float]:
    """Metric -> printed value of every printed cell that a run stands for: the cells of its own
    row, and of printed rows that are the same run. A cell that names the step goes first."""
    same = same_runs(spec.paper).get((table, method), [])
    names = [(table, method), *(one[:2] for one in same)]
    found: dict[str, float] = {}
    for of_table, label, named in same:  # its one benchmark is printed under another name
        if named:
            return dict(cells(spec.paper)[of_table, model, label, named])
    means = [mean for mean, members in spec.averages.items() if benchmark in members]
    for name in (f"{benchmark}, step {step}", benchmark, *means):
        if name in means and found:
            break  # the benchmark is printed itself; one that is not takes the printed mean
        for of_table, label in names:
            for metric, value in cells(spec.paper).get((of_table, model, label, name), ()):
                found.setdefault(metric, value)
    return found


@cache
def cells(paper: str) -> dict[tuple, list[tuple[str, float]]]:
    """(table, model, method, benchmark) -> list of its printed (metric, value)."""
    frame = published(ROOT / "papers" / paper / "published")
    groups = frame.fillna({"benchmark": ""}).groupby(["table", "model", "method", "benchmark"])
    return {key: list(zip(x["metric"], x["value"], strict=True)) for key, x in groups}


# ---- copies that are wrong on purpose


def copied(made: Rerun, root: Path) -> Rerun:
    """The same rerun in another folder."""
    shutil.copytree(made.root, root, dirs_exist_ok=True)
    moved = [replace(e, results_dir=str(root)) for e in made.evaluations]
    return Rerun(made.spec, root, moved)


def rewritten(e: Evaluate, changes: dict, *, beside: bool = False):
    """The evaluation's rows with other words in some columns, in its own finished folder or in one
    `beside` it."""
    source = e.path
    config = yaml.safe_load((source / "config.yaml").read_text())
    frame = pd.read_csv(source / "metrics.csv").assign(**changes)
    name = f"{source.name}-again" if beside else source.name
    (counts,) = (path.read_bytes() for path in source.glob("eval/*-counts.csv"))
    checkpoint = (source / "checkpoint.json").read_bytes()
    if not beside:
        shutil.rmtree(source)
    with quick():
        run = Run(source.parents[1], source.parent.name, name, config)
        write(run.path / "checkpoint.json", checkpoint)
        step = int(frame["step"].iloc[0])
        write_csv(run.path / "metrics.csv", frame.assign(run_id=name))
        write(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
        run.finish()
