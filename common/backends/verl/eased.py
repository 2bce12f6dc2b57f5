"""Shorter passes after memory ran out: each time half the tokens a GPU and pass, but at least one
response of full length. No result depends on the length of passes, so it is no part of a run's
identity.
"""

import math
import re
from pathlib import Path

from common.backends.verl.tuning import ACTOR, PASS, REF, ROLLOUT, sequence_parallel
from common.experiment import Experiment
from common.results.files import write

TIMES = "out_of_memory"  # in the work folder: how often memory ran out
KEYS = (PASS, *(f"{part}.log_prob_max_token_len_per_gpu" for part in (ROLLOUT, REF)))
RAN_OUT = re.compile(r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory")


def shortest(x: Experiment, settings: dict, prompt: int, context: int) -> float:
    """Return the tokens of the shortest pass: a GPU's part of one prompt with a response of full
    length. The value is infinite where verl does not pack by tokens."""
    if not settings[f"{ACTOR}.use_dynamic_bsz"]:
        return math.inf
    longest = min(prompt + x.sampling.max_tokens, context)
    return math.ceil(longest / sequence_parallel(settings))


def shortened(settings: dict, work: Path, shortest: float) -> dict[str, int]:
    """Return the keys of `settings` that set the length of a pass, halved once for each time that
    memory ran out in `work`, but no shorter than `shortest`."""
    return {
        key: int(max(min(tokens, shortest), tokens >> _times(work)))
        for key in KEYS
        if isinstance(tokens := settings.get(key), int)
    }


def note(work: Path, failure: str, settings: dict, shortest: float) -> bool:
    """Record in `work` that memory ran out in a start with these `settings`. Return whether it did
    and the next start has shorter passes."""
    if not RAN_OUT.search(failure) or settings[PASS] <= shortest:
        return False
    write(work / TIMES, str(_times(work) + 1))
    return True


def _times(work: Path) -> int:
    return int((work / TIMES).read_text()) if (work / TIMES).exists() else 0
