"""Counter-based randomness: every draw has its own generator, named by its purpose.

No random state is carried from step to step. A resumed run therefore needs no generator state, and
two runs with the same seed see the same numbers whatever happened in between.
"""

import hashlib

import torch


def generator(*name: object) -> torch.Generator:
    """Return a CPU generator seeded by the hash of its name: generator(seed, "rollout", step)."""
    digest = hashlib.sha256("/".join(map(str, name)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def in_turn(pool: int, start: int, count: int, *name: object) -> list[int]:
    """Return the `count` draws from number `start` on, as indices of `pool` items.

    Each epoch draws every item once, in an order of its own that `name` and the epoch seed.
    """
    drawn: list[int] = []
    order: list[int] = []
    for index in range(start, start + count):
        epoch, position = divmod(index, pool)
        if not drawn or position == 0:
            order = torch.randperm(pool, generator=generator(*name, epoch)).tolist()
        drawn.append(order[position])
    return drawn
