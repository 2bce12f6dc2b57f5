"""Counter-based randomness: every draw has its own generator, named by what it is for.

Nothing random is carried from step to step, so a resumed run needs no generator state and two runs
with the same seed see the same numbers whatever happened in between.
"""

import hashlib

import torch


def generator(*name: object) -> torch.Generator:
    """A CPU generator seeded by the hash of its name, e.g. generator(seed, "rollout", step)."""
    digest = hashlib.sha256("/".join(map(str, name)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
