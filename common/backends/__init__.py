"""Backends, which run a whole Experiment: `local` is the specification, `verl` is for clusters."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from common.backends.interface import Backend
from common.errors import UserError, require
from common.experiment import Experiment


def backend(name: str) -> Backend:
    """Return the backend called `name`; only this one is imported. Raises UserError for an unknown
    name."""
    if name == "local":
        from common.backends.local import BACKEND
    elif name == "verl":
        from common.backends.verl.backend import BACKEND
    else:
        raise UserError(f"backend={name}: unknown; choose from local, verl")
    return BACKEND


def run_experiment(
    x: Experiment, progress: bool = True, on_step: Callable[..., None] = lambda *_: None
) -> Path:
    """Run `x` on the backend it names and return its run folder; `on_step` is as in Backend.

    If solve rates choose its training prompts, they are measured first. Raises UserError for an
    unknown backend, and for backend=verl in an environment without verl."""
    from common.backends.solve_rates import measure

    measure(x, on_step)
    return backend(x.backend).train(x, progress, on_step)


def command(paper: str, config_name: str = "config", words: list[str] | None = None) -> None:
    """Run `python -m papers.<paper> [experiment=NAME] [key=value ...] [explain[=NODESxGPUSxGB]]`.
    `words` are its command-line arguments; None means the arguments of this process.

    With `explain` nothing runs. It prints what the experiment's backend would do on so many nodes,
    each with so many GPUs of so much memory (default 1x8x80), and where it differs from the paper.
    """
    from common.cli import main  # imported here: jobs run experiments without a command line
    from common.config.words import split
    from common.results.summary import summary

    own, others = split(sys.argv[1:] if words is None else words, {"explain": "no"})

    def run(x: Experiment) -> None:
        if own["explain"] != "no":
            print(_explained(x, own["explain"] or "1x8x80"))
            return
        path = run_experiment(x)
        sampled = f"rlvr evaluate model=huggingface model.path={path / 'model'} eval=..."
        print(summary(path, sampled), file=sys.stderr)
        print(path)

    main(run, Experiment, paper, config_name, others)


def _explained(x: Experiment, size: str) -> str:
    numbers = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)x([1-9]\d*)", size)
    require(numbers is not None, "explain", size, "give NODESxGPUSxGB, as in 2x8x80")
    nodes, gpus, gpu_gb = map(int, numbers.groups())
    return backend(x.backend).explain(x, nodes=nodes, gpus=gpus, gpu_gb=gpu_gb)
