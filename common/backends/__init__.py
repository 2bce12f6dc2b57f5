"""Backends, which run a whole Experiment: `local` is the specification, `verl` is for clusters."""

from collections.abc import Callable
from pathlib import Path

from common.backends.interface import Backend
from common.errors import UserError
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
