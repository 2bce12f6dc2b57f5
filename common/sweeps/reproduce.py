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
from typing import TYPE_CHECKING

from common.cli import main
from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from common.experiment import Experiment
from common.sweeps.plan import Reproduce, experiments
from common.sweeps.schedule import Task, run_all

if TYPE_CHECKING:
    from common.comparison.spec import Spec


MAZE = "laptop_maze"  # SCALE and scope of the second laptop testbed


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


def compared_on_mazes(spec: Spec, root: Path, draw: Callable[[Path], str]) -> None:
    """Gather the runs' rows of the second laptop testbed, `draw` and print its table."""
    from common.comparison import maze

    maze.gather(root, spec.paper)
    print(draw(root))


def compared(spec: Spec, root: Path, *steps: Callable[[Path], object]) -> None:
    """Gather the runs' rows and the paper's own tables, take its own steps, and compare."""
    from common.comparison.compare import compare
    from common.comparison.gather import LAPTOP, gather

    gather(root, spec.paper, LAPTOP)
    spec.measure(root)
    for step in steps:
        step(root)
    compare(spec, root)


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
    alone = config.scale == MAZE  # the papers' own parts are computed with the other scales
    first = [(start.run_id, train, (start, end)), *([] if alone else parts(config))]
    run_all(first, config.workers, then=[*([] if alone else later(config)), *rest])
    finish(config)
    left = sum(not done(x) for x in runs)
    if left:
        print(f"budget={config.budget}: {left} of {len(runs)} runs are left; again to go on")


def train(x: Experiment, end: float | None = None) -> str | None:
    """Run `x`, or go on with it; at the time `end` (Unix seconds) it stops with a checkpoint, and
    what became of it is told."""
    from common.backends import run_experiment

    def between(*_) -> None:
        if end is not None and time() > end:
            raise OutOfTime

    try:
        if not done(x):
            between()
        run_experiment(x, progress=False, between=between)
    except OutOfTime:
        return "out of time"
    return None


def done(x: Experiment) -> bool:
    return (Path(x.results_dir) / x.paper / x.run_id / "DONE").exists()
