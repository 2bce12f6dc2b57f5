"""The interface of a backend to the rest of the code."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Backend:
    """One way to run a whole Experiment."""

    # (x, progress=True, on_step=nothing) -> run folder. A finished run is found, not repeated.
    # `on_step` may raise to stop the run: all work so far is stored already, or it is stored before
    # the exception leaves `train`. `on_step` is called before every step, or, while a step runs,
    # with the duration of the longest step so far in seconds.
    train: Callable[..., Path]
    # (x, nodes=, gpus=, gpu_gb=) -> text: what `train` would do on `nodes` nodes, each with `gpus`
    # GPUs of `gpu_gb` GB
    explain: Callable[..., str]
    engine: Literal["local", "vllm"]  # samples from its models afterwards (common/evaluation)
    needs_gpu: bool  # true: it takes all GPUs of its job; false: one process, on a CPU or one GPU
    packages: tuple[tuple[str, ...], ...]  # needed beyond the plain environment: one of each tuple
