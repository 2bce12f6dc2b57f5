"""A paper's perfect rerun: the run folders that its cluster jobs would leave if every number came
out as printed, made from papers/<p>/published and from the cluster sweep itself.

Nothing is known of a paper here but what its configurations say. A training run's curve is highest
at a step of ours, far from the printed numbers, so that a wrong step or a row of the curve in a
printed cell is seen.
"""

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import yaml
from compositions import asked
from scipy.optimize import linprog

from common.comparison.published import published
from common.comparison.spec import Spec, spec_of
from common.config.files import ROOT
from common.datasets.prompts import stated
from common.evaluation import checkpoints
from common.evaluation.config import Evaluate
from common.evaluation.run import keep_checkpoint
from common.evaluation.store import TENS
from common.experiment import Experiment
from common.losses.contributions import PREFIX, SHARES
from common.metrics.passk import pass_at_k_table, report
from common.results.columns import COLUMNS
from common.results.files import write, write_csv, write_json
from common.results.run import Run
from common.sweeps.plan import Sweep, evaluations_of, runs_of

LOW = 3.0  # percent, of the curve's ordinary steps: no printed cell is near
LOGGED = {"entropy": 0.5, "reward": 0.25}  # of every step
PRINTED_LOGS = {  # of a method's every step, where the paper says a number in words
    "DAPO": {"entropy": 0.08, "rollout_seconds": 100.0},  # over_sharpening App. I
    "DAPO+IAC": {"entropy": 0.22, "rollout_seconds": 100.0},
    "DAPO+IAC+DLC": {"entropy": 0.3, "rollout_seconds": 500.0},  # Sec. 3.2; its entropy is not said
}
CONTROLLED = {"alpha": 1.5, "delta": 0.7}  # of every step of fade's
UNSTATED = 240  # problems of a set whose configuration does not say how many it has: SynLogic


@dataclass(frozen=True)
class Rerun:
    """What was made: the paper's Spec, and each evaluation with the folder that holds it."""

    spec: Spec
    root: Path
    evaluations: list[Evaluate]


def rerun(
    root: Path,
    paper: str,
    *,
    scales: tuple[str, ...] = ("cluster",),
    shift: float = 0.0,
    only: Callable | None = None,
) -> Rerun:
    """Store the perfect rerun of a paper's `scales` below `root`.

    shift: every number is off by so many standard errors of the difference of two runs over
    problems, away from 50 percent. only: keeps the sweeps' runs for which it is true.
    """
    spec, made = spec_of(paper), []
    with quick():
        config = asked(paper, "scale=cluster")  # composed once, whatever the folder
        for sweep in [sweep for scale in scales for sweep in config.scales[scale].sweeps]:
            runs = [replace(x, results_dir=str(root)) for x in runs_of(config, sweep)]
            made += one_sweep(runs, sweep, spec, shift, only)
    return Rerun(spec, root, made)


def quick() -> ExitStack:
    """Without what only a machine that may fail needs: fsync, and git's answer for every run."""
    stack = ExitStack()
    stack.enter_context(patch("os.fsync", lambda _: None))
    about = {"commit": "0" * 40, "diff_sha256": None}
    stack.enter_context(patch("common.results.run.source", lambda: about))
    return stack


def one_sweep(runs: list, sweep: Sweep, spec: Spec, shift: float, only) -> list[Evaluate]:
    wanted = [x for x in runs if only is None or only(x)]
    limits = {sweep.baselines.get(x.label) for x in wanted}
    for x in runs:
        if x.optim.steps > 0 and (x in wanted or x.label in limits):
            best = highest(x, late=x.label in sweep.baselines)
            trained(x, best, spec, shift, last=not sweep.benchmarks)
    ids = {x.run_id for x in wanted}
    made = [e for e in evaluations_of(runs, sweep) if e.row.trained in ids]
    for e in made:
        evaluated(e, spec, shift)
    return made


# ---- a training run


def highest(x: Experiment, *, late: bool) -> int:
    """The step at which the made-up curve is highest: the third evaluation, and, of a run whose
    compute must not exceed another's, one later, which is not to be chosen."""
    steps = [*range(x.eval.every, x.optim.steps, x.eval.every), x.optim.steps]
    return steps[min(3 if late else 2, len(steps) - 1)]


def trained(x: Experiment, best: int, spec: Spec, shift: float = 0.0, last: bool = False) -> None:
    """The folder of a finished training: curve, counts, models. Where the printed cells are of the
    curve's peak, the peak has their numbers, and at the step before it one set is solved; where
    they are of its `last` step, which no evaluation of its own repeats, that step has them."""
    peak = spec.steps.get(x.table) in ("peak", "peak of average")
    run = Run(Path(x.results_dir), x.paper, x.run_id, asdict(x))
    about = {"table": x.table, "model": x.model.name, "method": x.label, "seed": x.seed}
    frames = []
    steps = [*range(x.eval.every, x.optim.steps, x.eval.every), x.optim.steps]
    for step in steps[:4] + steps[-1:] if peak else steps:  # what the others hold is not looked at
        n = x.eval.n if step == x.optim.steps else x.eval.curve_n
        # the second highest at the third evaluation, where a limited run is to be read
        share = LOW + (2 if step == best else step == 3 * x.eval.every)
        sets = tuple((name, stated(node) or UNSTATED) for name, node in x.data.benchmarks.items())
        ks = tuple(k for k in x.eval.k if k <= n)
        alone = x.eval.every * 2 if peak else None
        counts, rows = flat(sets, n, share, ks, solved=sets[-1][0] if step == alone else None)
        if step == (best if peak else x.optim.steps if last else None):
            tables = [printed_set(x, spec, *one, n, shift) for one in sets]
            counts = pd.concat(tables).to_csv(index=False, lineterminator="\n")
            rows = report(pd.concat(tables), list(ks))
        sampled = {"metric": "token_entropy", "unit": "nats", "value": LOGGED["entropy"]}
        entropy = rows[rows["metric"] == "pass@1"].assign(**sampled, k=None, stderr=None)
        rows = pd.concat([rows, entropy], ignore_index=True)
        rows = rows.assign(**about, step=step, run_id=x.run_id)[COLUMNS]
        write(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
        write_csv(run.path / "eval" / f"step-{step:05d}.csv", rows)
        frames.append(rows)
        kept = f"checkpoints/step-{step:05d}" if step < x.optim.steps else "model"
        if x.keep_checkpoints or kept == "model":
            write(run.path / kept / "config.json", "{}")
    write(run.path / "counts.csv", counts)
    active = {"benchmark": "training", "metric": "active_groups", "value": 50.0, "unit": "percent"}
    active = pd.DataFrame([active | about | {"step": x.optim.steps, "run_id": x.run_id}])
    write_csv(run.path / "metrics.csv", pd.concat([*frames, active.reindex(columns=COLUMNS)]))
    values = logged(x.paper, x.label)
    log = [values | {"step": step} for step in (1, x.optim.steps)]
    if x.covariances:
        log = [values | {"step": at} | held(at) for at in (1, 50, 51, x.optim.steps)]
    write(run.path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in log))
    run.finish()


def logged(paper: str, method: str) -> dict[str, float]:
    """What a made-up training logs at every step."""
    of_paper = {"over_sharpening": PRINTED_LOGS.get(method, {}), "fade": CONTROLLED}
    return LOGGED | of_paper.get(paper, {})


def held(step: int) -> dict[str, float]:
    """What a step logs of its covariances, held by fewer tokens the later it is."""
    power = {1: 0.5, 50: 0.25}.get(step, 0.01)
    return {f"{PREFIX}{share:g}": share**power for share in SHARES}


def printed_set(
    x: Experiment, spec: Spec, benchmark: str, problems: int, n: int, shift: float
) -> pd.DataFrame:
    """Counts of one set of a training's curve whose numbers are the printed ones of its row; of a
    set that the row does not have, a half of all samples."""
    wanted = targets(spec, x.table, x.label, x.model.name, benchmark)
    named = {spec.metrics.get(f"pass@{k}", f"pass@{k}"): k for k in x.eval.k if k <= n}
    ks = [k for name, k in named.items() if name in wanted] or [1, n]
    names = {k: name for name, k in named.items()}
    passk = [(k, wanted.get(names[k], 50.0 + k)) for k in ks]
    c = counts_for(tuple(passk), problems, n)
    return table(benchmark, shifted(c, tuple(ks), n, shift) if shift else c, n)


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


def evaluated(e: Evaluate, spec: Spec, shift: float = 0.0) -> None:
    """The folder of a finished evaluation, as `common.evaluation.run.evaluate` leaves it."""
    row, step = e.row, 0
    if row.checkpoint != 0:
        home = Path(e.results_dir) / row.paper
        baseline = home / row.baseline if row.baseline else None
        taken = checkpoints.choose(home / row.trained, row.checkpoint, baseline)
        step = taken.step
    run = Run(Path(e.results_dir), row.paper, e.path.name, e.identity() | {"scope": row.scope})
    if row.checkpoint != 0:
        keep_checkpoint(run, taken)
    wanted = targets(spec, row.table, row.method, e.label, row.benchmark, step)
    about = {"table": row.table, "model": e.label, "method": row.method, "seed": row.seed}
    about |= {"step": step, "run_id": run.run_id}
    if e.eval.rare_share and row.checkpoint != 0:  # as rare_nll.score
        value = {"benchmark": row.benchmark, "metric": "delta_NLL_rare", "unit": "nats"}
        value |= {"value": wanted["delta_NLL_rare"], "stderr": 0.05, "n_problems": 200}
        frame = pd.DataFrame([value | {"n_samples": 1263} | about])
        write_csv(run.path / "metrics.csv", frame.reindex(columns=[*COLUMNS, "low", "high"]))
        run.finish()
        return
    problems = stated(e.eval.prompts) or UNSTATED
    ks = [k for k in sorted({*(2**i for i in range(e.n.bit_length())), *TENS}) if k <= e.n]
    passk = {int(m.removeprefix("pass@")): v for m, v in wanted.items() if m.startswith("pass@")}
    c = counts_for(tuple(sorted((k, v) for k, v in passk.items() if k <= e.n)), problems, e.n)
    if shift:
        c = shifted(c, tuple(k for k in passk if k <= e.n), e.n, shift)
    counts = table(row.benchmark, c, e.n)
    rows = report(counts, ks)
    average = rows[rows["k"] == 1].assign(metric=f"avg@{e.n}", k=e.n)
    nucleus = e.top_p < 1 and e.temperature != 1  # the log-probs are of the model's own policy
    other = "token_entropy_per_response" if nucleus else "token_nll_per_response"
    others = [
        {"benchmark": row.benchmark, "metric": ours, "value": wanted[printed], "stderr": 0.05}
        | {"n_problems": problems, "n_samples": e.n}
        for ours, printed in spec.metrics.items()
        if printed in wanted and ours != other
    ]
    frame = pd.concat([rows, average, pd.DataFrame(others)], ignore_index=True).assign(**about)
    write_json(run.path / "problems.json", {})
    write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
    write_csv(run.path / "counts.csv", counts)
    write_csv(run.path / "metrics.csv", frame.reindex(columns=[*COLUMNS, "low", "high"]))
    run.finish()


def targets(
    spec: Spec, table: str, method: str, model: str, benchmark: str, step: int | None = None
) -> dict[str, float]:
    """metric -> printed value of every printed cell that these rows of a run stand for: those of
    its own row, and of the rows that are the same run; a cell that names the step goes first."""
    names = [(table, method)]
    same = [one for one in spec.same_runs if (one.of_table, one.of_method) == names[0]]
    names += [(one.table, one.method) for one in same]
    found = {}
    for one in same:  # printed under another name
        if one.benchmark:
            return dict(cells(spec.paper)[one.table, model, one.method, one.benchmark])
    means = [mean for mean, members in spec.averages.items() if benchmark in members]
    for one in (f"{benchmark}, step {step}", benchmark, *means):
        if one in means and found:
            break  # a part that is printed itself; of parts that are not, each is their mean
        for name, label in names:
            for metric, value in cells(spec.paper).get((name, model, label, one), ()):
                found.setdefault(metric, value)
    return found


@cache
def cells(paper: str) -> dict[tuple, list[tuple[str, float]]]:
    """(table, model, method, benchmark) -> its printed (metric, value)."""
    frame = published(ROOT / "papers" / paper / "published")
    found: dict[tuple, list] = {}
    for one in frame.itertuples():
        key = (one.table, one.model, one.method, one.benchmark)
        found.setdefault(key, []).append((one.metric, one.value))
    return found


@cache
def counts_for(passk: tuple[tuple[int, float], ...], problems: int, n: int) -> np.ndarray:
    """Right answers (P,) of n samples whose pass@k, in percent, come nearest to those wanted: the
    nearest mixture of counts by a linear programme, rounded to whole problems, then improved one
    problem at a time."""
    if not passk:
        return np.zeros(problems, int)
    ks, wanted = [k for k, _ in passk], np.array([value for _, value in passk])
    values = 100 * pass_at_k_table(n, ks)  # (n + 1, K)
    few = np.unique(np.geomspace(1, n, 30).round().astype(int))
    grid = np.unique([0, n, *few, *(n - few), *np.linspace(0, n, 20).round().astype(int)])
    a, most = values[grid].T, np.full((len(ks), 1), -1.0)
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
    while True:  # one problem's count at a time, and, where that helps no more, two
        moved = one_move(c, values, error)
        best = norm(moved).argmin()
        if norm(error) < 0.01 * problems:
            return c
        if norm(moved)[best] >= norm(error) - 1e-9:
            if len(ks) > 2:  # a ladder: near enough, and its pairs would take seconds
                return c
            close = np.argsort(norm(moved), kind="stable")[:30]
            pairs = [norm(one_move(put(c, i, n), values, moved[i])).min() for i in close]
            if min(pairs) >= norm(error) - 1e-9:
                return c
            best = close[int(np.argmin(pairs))]
        c, error = put(c, best, n), moved[best]


def one_move(c: np.ndarray, values: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The error (M, K) after every change of one problem's count: old x new."""
    moved = error + values[None] - values[np.unique(c)][:, None]
    return moved.reshape(-1, len(error))


def put(c: np.ndarray, move: int, n: int) -> np.ndarray:
    """The counts after a change of `one_move`."""
    old, new = divmod(int(move), n + 1)
    c = c.copy()
    c[np.flatnonzero(c == np.unique(c)[old])[0]] = new
    return c


def norm(error: np.ndarray) -> np.ndarray:
    return np.sqrt((error**2).sum(-1))


def shifted(c: np.ndarray, ks: tuple[int, ...], n: int, by: float) -> np.ndarray:
    """Counts whose pass@k are off by so many standard errors of the difference of two such runs,
    away from 50 percent, where the errors grow smaller."""
    values = 100 * pass_at_k_table(n, ks)[c]
    means, errors = values.mean(0), values.std(0, ddof=1) / np.sqrt(len(c))
    wanted = (means + np.where(means < 50, -1, 1) * by * np.sqrt(2) * errors).clip(0, 100)
    return counts_for(tuple(zip(ks, wanted, strict=True)), len(c), n)


# ---- copies that are wrong on purpose


def copied(made: Rerun, root: Path) -> Rerun:
    """The same rerun in another folder."""
    shutil.copytree(made.root, root, dirs_exist_ok=True)
    moved = [replace(e, results_dir=str(root)) for e in made.evaluations]
    return Rerun(made.spec, root, moved)


def rewritten(e: Evaluate, changes: dict, *, beside: bool = False, chosen: int | None = None):
    """The evaluation's rows with other words in some columns, in its own finished folder or in one
    `beside` it; `chosen`: the step that it should have been at."""
    source = e.path
    config = yaml.safe_load((source / "config.yaml").read_text())
    frame = pd.read_csv(source / "metrics.csv").assign(**changes)
    name = f"{source.name}-again" if beside else source.name
    files = {path.name: path.read_bytes() for path in source.glob("*.*") if path.is_file()}
    if not beside:
        shutil.rmtree(source)
    with quick():
        run = Run(source.parents[1], source.parent.name, name, config)
        for file in ("counts.csv", "checkpoint.json"):
            write(run.path / file, files[file])
        if chosen is not None:
            taken = {"step": int(frame["step"].iloc[0]), "chosen": chosen, "folder": "model"}
            write_json(run.path / "checkpoint.json", taken | {"note": "training kept the last"})
        write_csv(run.path / "metrics.csv", frame.assign(run_id=name))
        step = int(frame["step"].iloc[0])
        write(run.path / "eval" / f"step-{step:05d}-counts.csv", files["counts.csv"])
        run.finish()


def rewritten_curve(folder: Path, frame: pd.DataFrame) -> None:
    """A finished training with other rows in its metrics.csv; its config.yaml and the rest stay."""
    config = yaml.safe_load((folder / "config.yaml").read_text())
    ours = {"DONE", ".lock", "meta.json", "config.yaml", "metrics.csv"}
    files = {p.relative_to(folder): p for p in folder.rglob("*") if p.is_file()}
    kept = {name: p.read_bytes() for name, p in files.items() if str(name) not in ours}
    shutil.rmtree(folder)
    with quick():
        run = Run(folder.parents[1], folder.parent.name, folder.name, config)
        for name, content in kept.items():
            write(run.path / name, content)
        write_csv(run.path / "metrics.csv", frame)
        run.finish()
