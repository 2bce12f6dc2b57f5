"""Whether a group of processes still lives: which of them has died, was stopped, or whether nothing
has moved for too long.

Ray and vLLM do not always notice: who asks them then waits for ever for an answer of a process that
is gone. What is looked at here are snapshots of processes, so this knows neither.

GRACE_S   a part that has died, or that is stopped (SIGSTOP), ends the run this much later: a run
          that ends well takes its parts down one after another, within seconds
STALL_S   without progress, or STALLED times the longest step so far, if that is longer. Before the
          first step FIRST times as long: weights, kernels and a checkpoint come from slow disks
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import psutil

from common.errors import require

GRACE_S = 60.0
DIED = "has died"
COUNTED_S = 15.0  # between two looks, at most: we were suspended too (scontrol), or all is slow
STALL_S = 30 * 60.0  # a whole step takes others 25 to 540 s (SimpleRL-Zoo, EasyR1, NeMo-RL)
STALLED = 5  # steps; responses grow in training, but not fivefold from one step to the next
FIRST = 2
MINUTES = "RLVR_STALL_MINUTES"  # environment: another STALL_S, for a slow disk or a drill
# Ray's own two, its actors (classes; functions and idle workers may end at any time), vLLM's parts
NEEDED = re.compile(
    r"(?:^|/)(?:raylet|gcs_server)(?: |$)|^ray::(?!IDLE|SPILL_|RESTORE_|DELETE_)\w*[A-Z]|^VLLM::"
)


@dataclass(frozen=True)
class Part:
    """One process, as it was seen."""

    pid: int
    ident: float  # a number is given again after its process has ended
    name: str
    stopped: bool = False
    copy: bool = False  # forked with its parent's title: a compiler's start, a loader of data

    @property
    def needed(self) -> bool:
        return not self.copy and NEEDED.search(self.name) is not None

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def parts(processes: Iterable[psutil.Process]) -> list[Part]:
    """A snapshot; what ends while it is taken is left out."""
    seen = {}
    for process in processes:
        try:
            name, stopped = name_of(process.cmdline()), process.status() == psutil.STATUS_STOPPED
            # the time of birth as psutil gives it moves with a clock that is set right
            seen[process.pid] = process.ppid(), hash(process), name, stopped
        except psutil.Error:
            continue
    titles = {pid: name.split(".")[0] for pid, (_, _, name, _) in seen.items()}
    return [
        Part(pid, ident, name, stopped, copy=titles[pid] == titles.get(parent))
        for pid, (parent, ident, name, stopped) in seen.items()
    ]


def name_of(words: list[str]) -> str:
    """A process as a message names it: its title, or program and module or script."""
    if not words:
        return "?"
    title = words[0].split("/")[-1] if len(words) > 1 else words[0].strip()
    if "-m" in words[1:-1]:
        title += " -m " + words[words.index("-m") + 1]
    elif scripts := [word for word in words[1:] if word.endswith(".py")]:
        title += " " + scripts[0].split("/")[-1]
    return title[:80]


def stall_s() -> float:
    """STALL_S, or what the environment says. Raises UserError for what is no number above 0."""
    text = os.environ.get(MINUTES, f"{STALL_S / 60:g}")
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    require(minutes > 0, MINUTES, text, "give minutes above 0, as in 30")
    return 60 * minutes


@dataclass
class Watch:
    """What was seen so far; `look` is asked every few seconds."""

    stall_s: float
    longest: float = 0.0  # step so far, in seconds
    _known: dict[tuple[int, float], Part] = field(default_factory=dict)
    # (what, process) -> when it was seen first
    _since: dict[tuple[str, int, float], float] = field(default_factory=dict)
    _progress: object = None
    _moved: float = 0.0
    _looked: float | None = None
    _clock: float = 0.0  # runs while we do

    def look(self, alive: list[Part], progress: object, now: float) -> str | None:
        """What is wrong, in words, or None. `alive` is a snapshot, `progress` any value that
        changes where the run moves on, `now` a clock in seconds."""
        now = self._counted(now)
        if progress != self._progress:
            self._progress, self._moved = progress, now
        return self._lost(alive, now) or self._stalled(alive, now)

    def _counted(self, now: float) -> float:
        """Seconds on a clock that stands while we cannot look: a machine that is suspended or too
        busy for us is so for the others."""
        passed = 0.0 if self._looked is None else now - self._looked
        self._looked, self._clock = now, self._clock + min(passed, COUNTED_S)
        return self._clock

    def had_died(self, now: float) -> str | None:
        """Of a run that has ended by itself: the parts that were the first to die, and when. Those
        that the end itself takes down may be among them if they went within the same look."""
        since = {key: when for key, when in self._since.items() if key[0] == DIED}
        if not since:
            return None
        first = min(since.values())
        names = [str(self._known[key[1:]]) for key, when in since.items() if when == first]
        return f"{', '.join(names[:5])} had died {self._counted(now) - first:.0f} s before"

    def _lost(self, alive: list[Part], now: float) -> str | None:
        here = {(part.pid, part.ident): part for part in alive}
        dead = [part for key, part in self._known.items() if key not in here and part.needed]
        # the last name counts: a worker of Ray that has become idle may end
        self._known = {**{(part.pid, part.ident): part for part in dead}, **here}
        wrong = [(DIED, part) for part in dead]
        wrong += [("is stopped (SIGSTOP)", part) for part in alive if part.stopped]
        keys = {(what, part.pid, part.ident): (what, part) for what, part in wrong}
        self._since = {key: self._since.get(key, now) for key in keys}
        late = [key for key, since in self._since.items() if now - since >= GRACE_S]
        if not late:
            return None
        first = min(late, key=self._since.__getitem__)
        what, part = keys[first]
        others = [f"{other} {how}" for key, (how, other) in keys.items() if key != first]
        also = "".join(f"; {text}" for text in others[:5])
        return f"{part} {what}, {now - self._since[first]:.0f} s ago{also}"

    def _stalled(self, alive: list[Part], now: float) -> str | None:
        waited, limit = now - self._moved, self.stall_s if self.longest else FIRST * self.stall_s
        if waited < max(limit, STALLED * self.longest):
            return None
        running = [str(part) for part in alive if part.needed]
        return (
            f"no progress for {waited / 60:.1f} minutes (the limit is the longer of {limit / 60:g} "
            f"minutes, by {MINUTES}, and {STALLED} times the longest step, {self.longest:.0f} s); "
            f"running: {', '.join(running[:12])}"
        )
