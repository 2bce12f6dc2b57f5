"""A model's sizes: what memory and time depend on. No torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    parameters: float
    layers: int
    hidden: int
    kv_width: int  # key-value heads x head size
    vocab: int
    context: int  # tokens of a prompt and its response together
