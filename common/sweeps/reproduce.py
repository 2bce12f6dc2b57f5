"""Everything of one paper that this machine can do: `make reproduce-<paper>`.

    base model -> RL runs, beside both its own parts (theory, simulation) -> figures -> comparison

What a SCALE runs is in `papers/<paper>/configs/reproduce.yaml`. Finished parts are found by their
configuration and not repeated; a stopped command goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from common.cli import main
from common.errors import UserError
from common.experiment import Experiment
from common.sweeps.plan import BASE, Reproduce, experiments
from common.sweeps.schedule import Task, run_all


def none(config: Reproduce) -> list[Task]:
    return []


def command(paper: str, parts: Callable, finish: Callable, *, later: Callable = none) -> None:
    """`python -m papers.<paper>.reproduce`: the paper names its own parts, those that need the base
    model (`later`), and what is drawn and shown of the results folder at the end."""
    run = partial(reproduce, parts=parts, finish=finish, later=later)
    main(run, Reproduce, paper, "reproduce")


def reproduce(
    config: Reproduce, parts: Callable, finish: Callable, *, later: Callable = none
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
    finish(Path(config.root))


def train(x: Experiment) -> None:
    from common.backends import run_experiment

    run_experiment(x, progress=False)
