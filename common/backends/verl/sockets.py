"""The address at which verl hands weights to vLLM, one a launch.

verl's own is a file in the machine's temporary folder whose name is the same for every launch with
a Ray of its own: of two on one node each would remove the other's, and vLLM could be given the
other's weights. Imports neither verl nor vLLM.
"""

import os
import tempfile
from pathlib import Path

MARK = "RLVR_VERL_RUN"  # environment variable that every process of one launch carries
READABLE = {"SPT_NOENV": "1"}  # setproctitle writes over /proc/PID/environ, and the mark, without


def own(handle: str) -> str:
    """verl's address with this launch's name, in this launch's folder where it lies on this
    node."""
    name = Path(handle.removeprefix("ipc://")).name
    launch = Path(os.environ[MARK]).name
    return f"ipc://{Path(tempfile.gettempdir(), f'{launch}-{name}')}"
