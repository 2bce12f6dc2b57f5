"""The sizes of a model on which memory and time depend. This module does not import torch."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Size:
    parameters: float
    layers: int
    hidden: int
    kv_width: int  # key-value heads x head size
    vocab: int
    context: int  # tokens of a prompt and its response together


def narrowed(size: Size, shrink: int) -> Size:
    """Return the size of DLC's random memory network (common/rollout/dlc.py) beside a policy of
    this `size`: the width is divided by `shrink`, and there are always two embedding tables, for
    input and output."""
    tables = 2 * size.vocab * size.hidden
    layers = max(0.0, size.parameters - tables)
    return replace(
        size,
        parameters=layers / shrink**2 + tables / shrink,
        hidden=size.hidden // shrink,
        kv_width=size.kv_width // shrink,
    )
