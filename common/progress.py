"""Progress of long loops: a bar on a terminal, occasional lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
SECONDS = 10.0  # at least, between two lines


def tracked(items: Iterable[T], label: str, *, total: int, done: int = 0) -> Iterator[T]:
    """Yield `items` and show their progress on stderr: `total` in all, `done` of them before this
    call. If stderr is not a terminal, print at most one line every SECONDS, and one at the end."""
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
