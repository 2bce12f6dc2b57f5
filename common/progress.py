"""Progress of long loops: a bar on a terminal, occasional lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
SECONDS = 10.0  # at least, between two lines


def tracked(
    items: Iterable[T], label: str, *, total: int, done: int = 0, note: Callable[[], str] = str
) -> Iterator[T]:
    """Yield `items` and show progress on stderr: a bar on a terminal, else a line every SECONDS.
    `done` of the `total` items came before this call; `note()` is added to each line."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task(label, total=total, completed=done)
            for item in items:
                yield item
                bar.update(task, advance=1, description=f"{label} {note()}".rstrip())
        return
    began = said = time.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - said >= SECONDS or done + number == total:
            left = (now - began) / number * (total - done - number)
            parts = [f"{label}: {done + number} of {total}", note()]
            parts += [f"about {left / 60:.1f} min left"] if left else []
            print(", ".join(filter(None, parts)), file=sys.stderr, flush=True)
            said = now
