"""The sizes of a model on which memory and time depend, without importing torch."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Size:
    parameters: float
    layers: int
    hidden: int
    kv_width: int  # key-value heads x head size
    vocab: int
    context: int  # tokens of a prompt and its response together


def with_memory(size: Size, sampler: Any, size_at: Callable[[str], Size | None]) -> list[Size]:
    """Return the sizes of a policy and, if `sampler` is DLC's, of its memory network
    (common/rollout/dlc.py): a checkpoint, whose size `size_at` finds, a copy of the policy, or a
    random network with its width divided by `shrink`, always with two embedding tables. A
    checkpoint of unknown size is left out."""
    if sampler is None:
        return [size]
    if sampler.path is not None:
        return [size, *filter(None, [size_at(sampler.path)])]
    shrink = sampler.shrink if sampler.start == "random" else 1
    tables = 2 * size.vocab * size.hidden
    layers = max(0.0, size.parameters - tables)
    memory = replace(
        size,
        parameters=layers / shrink**2 + tables / shrink,
        hidden=size.hidden // shrink,
        kv_width=size.kv_width // shrink,
    )
    return [size, memory]
