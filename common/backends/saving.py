"""When a training saves the checkpoint that it resumes from."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

SHARE = 0.02  # most of the time that saving may take
LONGEST_S = 3600.0  # most time between two checkpoints; it comes before the share


def steps_between(step_s: float, save_s: float) -> int:
    """Return the fewest steps that keep saving within `SHARE` of the time; at most LONGEST_S."""
    fewest, most = math.ceil(save_s / (SHARE * step_s)), int(LONGEST_S / step_s)
    return max(1, min(fewest, most))


class Saving:
    """Decides after which steps a run saves: every `every` steps or, with None, its first step
    after each start and then by the duration of the last checkpoint."""

    def __init__(self, every: int | None):
        self.every, self.last = every, 0
        self.ended = self.seconds = 0.0  # of the last checkpoint

    def due(self, step: int) -> bool:
        if self.every:
            return step % self.every == 0
        if self.last == 0:
            return True
        since = step - self.last
        return since >= steps_between((monotonic() - self.ended) / since, self.seconds)

    @contextmanager
    def timed(self, step: int) -> Iterator[None]:
        began = monotonic()
        yield
        self.last, self.ended = step, monotonic()
        self.seconds = self.ended - began
