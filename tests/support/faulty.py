"""A controller that sets nothing and lets faults befall a training: of seed 1 in the third step of
its first attempt and in the fifth of its second, of seed 2 a gradient that is never finite."""

import errno
import math
import os

from common.models import recorded

FAULTS = {
    (1, "0", 3): RuntimeError("CUDA error: an illegal memory access was encountered"),
    (1, "1", 5): OSError(errno.ENOSPC, "No space left on device"),
}


def befall(state: dict, *, solve_rate: float, entropy: float, step: int, seed: int):
    fault = FAULTS.get((seed, os.environ.get("SLURM_RESTART_COUNT", "0"), step))
    if fault is not None:
        raise fault
    if seed == 2 and step == 1 and "SLURM_JOB_ID" in os.environ:  # not where it is only checked
        original = recorded.log_probs
        recorded.log_probs = lambda *a: (original(*a)[0] * math.nan, original(*a)[1])
    return {}, {}
