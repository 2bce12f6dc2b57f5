"""Processes, as tests ask for them."""

import multiprocessing

import psutil

# Children fork from a server that has imported torch and transformers: a restart costs its run.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(
    [
        "common.backends.local",
        "common.evaluation.workers",
        "common.models.hf",
        "hydra.utils",
        "transformers.integrations",
    ]
)


def alive(pid: int) -> bool:
    """Whether a process lives; one that has ended and waits for its parent to take note does
    not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
