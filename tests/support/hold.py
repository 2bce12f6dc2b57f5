"""A controller that sets nothing and lets a test hold a training in the middle, however fast it is.

Where the environment names a folder (HOLD), a run writes its process id there in its sixteenth
step, and goes on once its file `<seed>.go` is there.
"""

import os
import time
from pathlib import Path

HOLD, STEP = "RLVR_TEST_HOLD", 16  # behind the checkpoint of step 10


def wait(state: dict, *, solve_rate: float, entropy: float, step: int, seed: int):
    folder = os.environ.get(HOLD)
    if folder and step == STEP:
        written = Path(folder, f"{seed}.{os.getpid()}")
        written.write_text(str(os.getpid()))
        written.replace(Path(folder, f"{seed}.pid"))
        while not Path(folder, f"{seed}.go").exists():
            time.sleep(0.05)
        time.sleep(2)  # SLURM lets a stopped job run on a moment before it signals it
    return {}, {}
