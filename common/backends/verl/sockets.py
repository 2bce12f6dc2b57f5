"""The address at which verl hands weights to vLLM: verl's own is a file of the same name in all
launches, so that a vLLM could get another's weights."""

import os
import tempfile
from pathlib import Path

MARK = "RLVR_VERL_RUN"  # environment variable that every process of one launch carries
READABLE = {"SPT_NOENV": "1"}  # else setproctitle overwrites /proc/PID/environ and the mark in it


def own(handle: str) -> str:
    """Return verl's address with this launch's name in it, in the launch's own folder if that is on
    this node, else in the machine's temporary folder."""
    name = Path(handle.removeprefix("ipc://")).name
    launch = Path(os.environ[MARK]).name
    return f"ipc://{Path(tempfile.gettempdir(), f'{launch}-{name}')}"
