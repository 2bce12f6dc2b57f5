"""The address at which verl hands weights to vLLM, a separate one for each launch.

verl's own address is a file in the machine's temporary folder, whose name is the same for every
launch with a Ray of its own. Two such launches on one node would remove each other's file, and vLLM
could be given the weights of the other launch. Imports neither verl nor vLLM.
"""

import os
import tempfile
from pathlib import Path

MARK = "RLVR_VERL_RUN"  # environment variable that every process of one launch carries
READABLE = {"SPT_NOENV": "1"}  # else setproctitle overwrites /proc/PID/environ and the mark in it


def own(handle: str) -> str:
    """Return verl's address with this launch's name in it. Its folder is the launch's own if that
    folder is on this node, else the machine's temporary folder."""
    name = Path(handle.removeprefix("ipc://")).name
    launch = Path(os.environ[MARK]).name
    return f"ipc://{Path(tempfile.gettempdir(), f'{launch}-{name}')}"
