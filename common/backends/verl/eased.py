"""What a start changes after memory ran out on a GPU in an earlier one; no result depends on it. In
a pass: half the tokens, but at least one response of full length; after that, states go to main
memory while vLLM samples. While vLLM wakes up: a tenth less of the GPU for vLLM."""

import math
import re
from pathlib import Path

from common.backends.verl.layout import OFFLOAD, PART
from common.backends.verl.tuning import ACTOR, PASS, REF, ROLLOUT, sequence_parallel
from common.experiment import Experiment
from common.results.files import write

TIMES = "out_of_memory"  # in the work folder: what was changed, a word a line
KEYS = (PASS, *(f"{part}.log_prob_max_token_len_per_gpu" for part in (ROLLOUT, REF)))
HOST = re.compile(r"ray\.exceptions\.OutOfMemoryError|running low on memory")  # main memory
WAKING = re.compile(r"CUDA Error: out of memory at .*cumem_allocator")  # vLLM's own words
RAN_OUT = re.compile(r"OutOfMemoryError|CUDA out of memory|CUDA error: out of memory")
LEAST = 0.3  # vLLM's share of a GPU is not made smaller; our choice


def shortest(x: Experiment, settings: dict, prompt: int, context: int) -> float:
    """Return the tokens of the shortest pass; infinite where verl does not pack by tokens."""
    if not settings[f"{ACTOR}.use_dynamic_bsz"]:
        return math.inf
    longest = min(prompt + x.sampling.max_tokens, context)
    return math.ceil(longest / sequence_parallel(settings))


def shortened(settings: dict, work: Path, shortest: float) -> dict[str, object]:
    """Return the keys of `settings` that are changed after what `note` has recorded in `work`."""
    done = _done(work)
    found: dict[str, object] = {
        key: int(max(min(tokens, shortest), tokens >> done.count("pass")))
        for key in KEYS
        if isinstance(tokens := settings.get(key), int)
    }
    if "share" in done:
        found[PART] = round(settings[PART] - 0.1 * done.count("share"), 2)
    if "states" in done:
        found |= dict.fromkeys((f"{OFFLOAD}.param_offload", f"{OFFLOAD}.optimizer_offload"), True)
    return found


def note(work: Path, failure: str, settings: dict, shortest: float) -> bool:
    """Record in `work` what the next start changes if memory ran out; return whether it does."""
    change = None
    if HOST.search(failure):
        return False
    if WAKING.search(failure):
        change = "share" if settings[PART] - 0.1 >= LEAST else None
    elif RAN_OUT.search(failure) and settings[PASS] > shortest:
        change = "pass"
    elif RAN_OUT.search(failure):
        there = (settings.get(f"{OFFLOAD}.{key}") for key in ("param_offload", "offload_policy"))
        change = None if any(there) else "states"
    if change:
        write(work / TIMES, "\n".join([*_done(work), change]))
    return change is not None


def _done(work: Path) -> list[str]:
    return (work / TIMES).read_text().split() if (work / TIMES).exists() else []
