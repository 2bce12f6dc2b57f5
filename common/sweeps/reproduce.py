"""What `rlvr reproduce` and similar commands run, in this order:

    base model -> RL runs, next to both the paper's own parts (theory, simulation) -> `finish`

`papers/<paper>/configs/reproduce.yaml` states what a SCALE runs. Whatever is finished is found by
its configuration and not repeated. A stopped command resumes where it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from time import time
from typing import get_type_hints

from common.config.compose import compose, value
from common.config.files import ROOT
from common.config.resolve import import_target
from common.config.strict import strict
from common.config.words import pairs
from common.errors import UserError, require
from common.experiment import Experiment
from common.results.longer import finished
from common.sweeps.plan import Reproduce, experiments, makers
from common.sweeps.schedule import Scheduled, run_all


class OutOfTime(Exception):
    """The budget is spent."""


def done(x: Experiment) -> bool:
    return finished(x.path, x.optim.steps)


def train(x: Experiment, end: float | None = None) -> str | None:
    """Run `x` or resume it. At the time `end` (Unix seconds) stop with a checkpoint and return "out
    of time"; return None for a run that is finished."""
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


def reproduce(
    config: Reproduce, finish: Callable[[Reproduce], None], runs: list[Experiment] | None = None
) -> None:
    """Run the scale, or `runs` instead of its rows, and then call `finish`. If
    runs fail, `finish` is called for the others, and then the UserError that names the failed runs
    is raised. Also raises UserError for a scale of a cluster."""
    remedy = f"is for a cluster; submit it with rlvr submit paper={config.paper} profile=NAME "
    remedy += f"scale={config.scale}"
    require(not config.scale.startswith("cluster"), "scale", config.scale, remedy)
    # all of them are checked before any compute is spent
    runs = experiments(config) if runs is None else runs
    end = None if config.seconds is None else time() + config.seconds
    beside, after = parts(config, "nothing"), parts(config, "base")
    first, failure = makers(runs), None
    try:
        rest = [x for x in runs if x not in first]
        train_all([*first, *rest], config.workers, end=end, beside=beside, after=after)
    except UserError as error:
        failure = error
        print(f"error: {error}", file=sys.stderr)
    finish(config)
    if failure is not None:
        raise failure
    left = sum(not done(x) for x in runs)
    if left:
        unfinished = f"{left} of {len(runs)} runs are unfinished"
        print(f"budget={config.budget} is spent: {unfinished}. Run the same command to continue.")


def train_all(
    runs: Sequence[Experiment],
    workers: int,
    *,
    end: float | None = None,
    beside: Sequence[Scheduled] = (),
    after: Sequence[Scheduled] = (),
) -> None:
    """Run every experiment that is not done, in their order. Runs wait for the one that makes their
    base model, the tasks `after` for all of those. The tasks `beside` come next to the first base
    models. Raises UserError naming the runs and tasks that failed."""
    left = [x for x in runs if not done(x)]
    first = [x for x in makers(runs) if x in left]
    makers_of = [tuple(y.run_id for y in first if y.model == x.model and y is not x) for x in left]
    tasks = [
        Scheduled(x.run_id, y, call=partial(train, x, end))
        for x, y in zip(left, makers_of, strict=True)
    ]
    place = len(list(takewhile(lambda x: x in first, left)))
    needed = tuple(x.run_id for x in first)
    tasks[place:place] = [*beside, *(replace(task, needs=needed) for task in after)]
    if tasks:
        run_all(tasks, workers)


def parts(config: Reproduce, after: str) -> list[Scheduled]:
    """Return tasks for the paper's own parts at this scale that wait for `after`."""
    asked = [name for name in config.parts if name in config.scales[config.scale].parts]
    mine = [name for name in asked if config.parts[name].after == after]
    return [Scheduled(name, call=partial(compute, config, name)) for name in mine]


def compute(config: Reproduce, name: str) -> None:
    function = import_target(config.parts[name].run, f"parts.{name}.run")
    words = config.scales[config.scale].parts[name]
    if not (ROOT / "papers" / config.paper / "configs" / f"{name}.yaml").exists():
        function(Path(config.root), **{key: value(key, x) for key, x in pairs(words).items()})
        return
    schema = next(iter(get_type_hints(function).values()))
    composed = compose(config.paper, [*words, f"results_dir={config.root}"], name)
    function(strict(schema, composed))
