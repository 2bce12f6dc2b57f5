"""Processes, as tests ask for them."""

import psutil


def alive(pid: int) -> bool:
    """Whether a process lives; one that has ended and waits for its parent to take note does
    not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
