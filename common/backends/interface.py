"""What a backend is to the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Backend:
    """One way to run a whole Experiment."""

    # (x, progress=True, on_step=nothing) -> run folder. A finished run is found, not repeated.
    # `on_step` is called where all that was made so far is stored, or is stored before what it
    # raises resumes: before every step, or, while a step runs, with the seconds of the longest.
    train: Callable[..., Path]
    # (x, nodes=, gpus=, gpu_gb=) -> what `train` would do on so many nodes and GPUs of so many GB
    explain: Callable[..., str]
    engine: Literal["local", "vllm"]  # what samples its models afterwards (common/evaluation)
    needs_gpu: bool  # takes all GPUs of its job; else it is one process, on a CPU or one GPU
    packages: tuple[tuple[str, ...], ...]  # beyond the plain environment; one of each tuple
