"""Everything of one paper that this machine can do: `rlvr reproduce paper=<paper>`.

    base model -> RL runs, beside both its own parts (theory, simulation) -> figures -> comparison

What a SCALE runs is in `papers/<paper>/configs/reproduce.yaml`. Finished parts are found by their
configuration and not repeated; a stopped command resumes where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import time

from common.cli import main
from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from common.experiment import Experiment
from common.sweeps.plan import Reproduce, experiments
from common.sweeps.schedule import Task, run_all

LAPTOP = "laptop"  # the scope that a paper's own parts belong to


class OutOfTime(Exception):
    """The budget is spent."""


def none(config: Reproduce) -> list[Task]:
    return []


def command(
    paper: str,
    words: list[str],
    finish: Callable,
    *,
    parts: Callable = none,
    later: Callable = none,
) -> None:
    """`rlvr reproduce paper=<paper>`: the paper names its own parts, those that need the base model
    (`later`), and what is measured, drawn and shown at the end (`finish`)."""
    run = partial(reproduce, finish=finish, parts=parts, later=later)
    main(run, Reproduce, paper, "reproduce", words)


def part(config: Reproduce, name: str, schema: type, *more: str):
    """The settings of one of the paper's own parts at this scale, checked; `more`: words as on its
    command line."""
    return strict(schema, compose(config.paper, [*config.overrides(name), *more], name))


def reproduce(
    config: Reproduce, *, finish: Callable, parts: Callable = none, later: Callable = none
) -> None:
    if config.scale.startswith("cluster"):
        raise UserError(
            f"scale={config.scale}: is for a cluster; submit it with rlvr submit "
            f"paper={config.paper} profile=NAME scale={config.scale}"
        )
    runs = experiments(config)  # all of them are checked before any compute is spent
    end = None if config.seconds is None else time() + config.seconds
    # the first that trains nothing makes the model that all others start from
    start = next(x for x in runs if x.optim.steps == 0)
    rest = [(x.run_id, train, (x, end)) for x in runs if x is not start]
    own = start.scope == LAPTOP  # else the paper's parts are computed with other scales
    first = [(start.run_id, train, (start, end)), *(parts(config) if own else ())]
    run_all(first, config.workers, then=[*(later(config) if own else ()), *rest])
    finish(config)
    left = sum(not done(x) for x in runs)
    if left:
        print(f"budget={config.budget}: {left} of {len(runs)} runs are left; again to go on")


def train(x: Experiment, end: float | None = None) -> str | None:
    """Run `x`, or go on with it; at the time `end` (Unix seconds) it stops with a checkpoint, and
    what became of it is told."""
    from common.backends import run_experiment

    def on_step(*_) -> None:
        if end is not None and time() > end:
            raise OutOfTime

    try:
        if not done(x):
            on_step()
        run_experiment(x, progress=False, on_step=on_step)
    except OutOfTime:
        return "out of time"
    return None


def done(x: Experiment) -> bool:
    return (Path(x.results_dir) / x.paper / x.run_id / "DONE").exists()
