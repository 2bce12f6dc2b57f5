"""A paper's perfect rerun: the run folders that its cluster jobs would leave if every number came
out as printed (made_reruns.py).

A training run's curve is highest at a step of ours, far from the printed numbers, so that a wrong
step or a row of the curve in a printed cell is seen.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import made_reruns
import numpy as np
import pandas as pd
import yaml
from made_reruns import CONTROLLED, LOGGED, LOW, Rerun, logged, quick
from scipy.optimize import linprog

from common.evaluation.config import Evaluate
from common.metrics.passk import pass_at_k_table
from common.results.files import write, write_csv, write_json
from common.results.run import Run

__all__ = ["CONTROLLED", "LOGGED", "LOW", "logged", "rerun"]


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

    def counts(passk: dict[int, float], problems: int, n: int) -> np.ndarray:
        c = counts_for(tuple(passk.items()), problems, n)
        return shifted(c, tuple(passk), n, shift) if shift else c

    return made_reruns.rerun(root, paper, counts, scales=scales, only=only)


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
