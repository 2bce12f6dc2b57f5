"""The shared memory that weights need on a CPU, on their way from the trainer to vLLM.

verl packs the weights into buckets of a fixed size. Without a GPU a bucket is a segment of shared
memory. A tensor larger than the bucket ends the run, and with a second bucket vLLM's worker dies of
"cannot close exported pointers exist" while the driver waits (verl 0.9.1). So there is one bucket
that holds all weights. Imports no verl.
"""

import shutil
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from common.backends.verl.config import Place
from common.errors import require

SHARED = Path("/dev/shm")
KEY = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
OTHERS = 300 << 20  # bytes: Ray's object store (config.py's 200 MB), queues, semaphores


def settings(place: Place, memory: str | None) -> dict[str, object]:
    """Return the key with the bucket's size in MiB; no key for GPUs, whose weights do not pass
    through shared memory.

    `memory` is the folder or hub id of DLC's memory network, whose weights are sent with the
    policy's. Raises UserError where shared memory has no room for the weights.
    """
    if place.device != "cpu":
        return {}
    models = [place.model, *([memory] if memory else [])]
    bytes_ = sum(map(weight_bytes, models))
    free = shutil.disk_usage(SHARED).free
    require(
        bytes_ + OTHERS <= free,
        "model.path",
        place.model,
        f"on a CPU its weights pass through {SHARED}: {(bytes_ + OTHERS) / 2**20:,.0f} MiB with "
        f"Ray's own, and {free / 2**20:,.0f} are free; empty it, make it larger (mount -o "
        "remount,size=, docker --shm-size), take a smaller model, or backend=local",
    )
    return {KEY: max(1, -(-bytes_ // 2**20))}


def weight_bytes(path: str) -> int:
    """Return the bytes of the model at `path` in float32. Each name counts, because verl sends tied
    tensors twice."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path))
    return sum(4 * tensor.numel() for tensor in model.state_dict().values())
