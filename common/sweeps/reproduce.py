"""What `rlvr reproduce` and its like run, in this order:

    base model -> RL runs, beside both the paper's own parts (theory, simulation) -> `finish`

What a SCALE runs is in `papers/<paper>/configs/reproduce.yaml`. Finished parts are found by their
configuration and not repeated; a stopped command resumes where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import time
from typing import get_type_hints

from common.config.compose import compose, value
from common.config.files import ROOT
from common.config.resolve import named
from common.config.strict import strict
from common.config.words import pairs
from common.errors import UserError
from common.experiment import Experiment
from common.sweeps.plan import Reproduce, experiments
from common.sweeps.schedule import Task, run_all


class OutOfTime(Exception):
    """The budget is spent."""


def reproduce(config: Reproduce, finish: Callable[[Reproduce], None]) -> None:
    """Run the scale: its base model and the parts that need nothing, then the other runs and the
    parts that need the base model, then `finish`."""
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
    first = [(start.run_id, train, (start, end)), *parts(config, "nothing")]
    run_all(first, config.workers, then=[*parts(config, "base"), *rest])
    finish(config)
    left = sum(not done(x) for x in runs)
    if left:
        print(f"budget={config.budget}: {left} of {len(runs)} runs are left; again to go on")


def parts(config: Reproduce, after: str) -> list[Task]:
    """The paper's own parts at this scale that wait for `after`."""
    asked = [name for name in config.parts if name in config.scales[config.scale].parts]
    return [(n, compute, (config, n)) for n in asked if config.parts[n].after == after]


def compute(config: Reproduce, name: str) -> None:
    """Run one of the paper's own parts."""
    function = named({"_target_": config.parts[name].run}, f"parts.{name}")
    words = config.words(name)
    if not (ROOT / "papers" / config.paper / "configs" / f"{name}.yaml").exists():
        function(Path(config.root), **{key: value(key, x) for key, x in pairs(words).items()})
        return
    schema = next(iter(get_type_hints(function).values()))
    composed = compose(config.paper, [*words, f"results_dir={config.root}"], name)
    function(strict(schema, composed))


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
