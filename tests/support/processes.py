"""Processes, as tests ask for them."""

import multiprocessing
import signal
import time
from pathlib import Path

import psutil

MAC = Path(__file__).with_name("pretended_mac")  # on PYTHONPATH: a Python without what macOS lacks
# What commands need, torch and transformers among it.
IMPORTED = [
    "common.backends.local",
    "common.evaluation.workers",
    "common.models.hf",
    "hydra.utils",
    "transformers.integrations",
]
# Children fork from a server that has imported it: a restart costs its run.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(IMPORTED)


def heed() -> None:
    """The `preexec_fn` of a process that Ctrl-C ends: a background job's children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def alive(pid: int) -> bool:
    """Whether a process lives; one that has ended and waits for its parent to take note does
    not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(condition, seconds: float = 300) -> None:
    """Wait until condition() holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s"
        time.sleep(0.05)
