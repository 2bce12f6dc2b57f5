"""Counter-based randomness: every draw has its own generator, named by its purpose. A resumed run
therefore needs no generator state, and equal seeds see equal numbers."""

import hashlib

import torch


def generator(*name: object) -> torch.Generator:
    """Return a CPU generator seeded by the hash of its name: generator(seed, "rollout", step)."""
    digest = hashlib.sha256("/".join(map(str, name)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def in_turn(pool: int, start: int, count: int, *name: object) -> list[int]:
    """Return `count` draws from number `start` on, as indices; each epoch draws all of `pool`."""
    drawn: list[int] = []
    order: list[int] = []
    for index in range(start, start + count):
        epoch, position = divmod(index, pool)
        if not drawn or position == 0:
            order = torch.randperm(pool, generator=generator(*name, epoch)).tolist()
        drawn.append(order[position])
    return drawn
