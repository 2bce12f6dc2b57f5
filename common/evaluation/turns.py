"""Which chunk an engine draws next, where engines share the chunks of several models."""

from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def next_of(
    groups: Sequence[Iterator[T]], own: int | None, others: Collection[int | None]
) -> tuple[int, T] | None:
    """Return the number of a group and its next item; None if nothing is left. A group has the
    chunks of one model. An engine stays with its `own`, the group that it is loaded for. Then it
    takes a group that none of the `others` is loaded for, and then any, so that few models are
    loaded more than once."""
    apart = [number for number in range(len(groups)) if number not in others]
    for number in [*([] if own is None else [own]), *apart, *range(len(groups))]:
        item = next(groups[number], None)
        if item is not None:
            return number, item
    return None
