"""Everything of one paper that this machine can do: `make reproduce-<paper>`.

    base model -> RL runs, beside both its own parts (theory, simulation) -> figures -> comparison

What a SCALE runs is in `papers/<paper>/configs/reproduce.yaml`. Finished parts are found by their
configuration and not repeated; a stopped command resumes where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from common.cli import main
from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from common.experiment import Experiment
from common.sweeps.plan import BASE, Reproduce, experiments
from common.sweeps.schedule import Task, run_all

if TYPE_CHECKING:
    from common.comparison.spec import Spec


def none(config: Reproduce) -> list[Task]:
    return []


def command(
    paper: str, finish: Callable, *, parts: Callable = none, later: Callable = none
) -> None:
    """`python -m papers.<paper>.reproduce`: the paper names its own parts, those that need the base
    model (`later`), and what is measured, drawn and shown at the end (`finish`)."""
    run = partial(reproduce, finish=finish, parts=parts, later=later)
    main(run, Reproduce, paper, "reproduce")


def part(config: Reproduce, name: str, schema: type, *more: str):
    """The settings of one of the paper's own parts at this scale, checked; `more`: words as on its
    command line."""
    return strict(schema, compose(config.paper, [*config.overrides(name), *more], name))


def compared(spec: Spec, root: Path, *steps: Callable[[Path], object]) -> None:
    """Gather the runs' rows, take the paper's own steps (tables, then figures), and compare."""
    from common.comparison.compare import compare
    from common.comparison.gather import LAPTOP, gather

    gather(root, spec.paper, LAPTOP)
    for step in steps:
        step(root)
    compare(spec, root)


def reproduce(
    config: Reproduce, *, finish: Callable, parts: Callable = none, later: Callable = none
) -> None:
    if config.scale.startswith("cluster"):
        raise UserError(
            f"scale={config.scale}: is for a cluster; submit it with python -m slurm submit "
            f"paper={config.paper} profile=NAME scale={config.scale}"
        )
    runs = experiments(config)  # all of them are checked before any compute is spent
    start = next(x for x in runs if x.name == BASE)
    rest = [(x.run_id, train, (x,)) for x in runs if x is not start]
    first = [(start.run_id, train, (start,)), *parts(config)]
    run_all(first, config.workers, then=[*later(config), *rest])
    finish(config)


def train(x: Experiment) -> None:
    from common.backends import run_experiment

    run_experiment(x, progress=False)
