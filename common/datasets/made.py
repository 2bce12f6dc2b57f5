"""Prompts of problems that are generated here, worded and templated like the public sets."""

from typing import Any

from common.config.resolve import resolve
from common.datasets.templates import render
from common.types import Prompt


def load(
    *,
    source: dict[str, Any],  # a function of `size` that returns rows: id, problem, answer, ...
    size: int,
    reference: dict[str, Any],  # the verifier's function that makes a row's reference
    instruction: str,
    chat: str | None,  # for instruction and chat see common/datasets/templates.py
) -> list[Prompt]:
    """Return `size` prompts. Raises UserError as the source, the verifier and `render` do."""
    make = resolve(source, "source", ("size",))
    to_reference = resolve(reference, "reference")
    return [
        Prompt(row["id"], render(row, instruction=instruction, chat=chat), to_reference(row))
        for row in make(size=size)
    ]
