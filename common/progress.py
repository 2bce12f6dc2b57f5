"""Progress of what takes long: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
SECONDS = 10.0  # between two lines


def tracked(items: Iterable[T], label: str, *, total: int, done: int = 0) -> Iterator[T]:
    """`items`, with their progress on stderr: `total` in all, of which `done` were done before.
    Where stderr is no terminal a line a SECONDS at most, and one at the end."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        console = Console(stderr=True)
        yield from track(items, label, total=total, completed=done, console=console)
        return
    began = said = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - said >= SECONDS or done + number == total:
            left = (now - began) / number * (total - done - number)
            ends = f", about {left / 60:.1f} min left" if left else ""
            print(f"{label}: {done + number} of {total}{ends}", file=sys.stderr, flush=True)
            said = now
