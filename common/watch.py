"""A watchdog that notices a process of a run that died or was stopped, and a run without progress;
and children that end with their parent.

Ray and vLLM may wait for ever for a process that is gone. This module looks only at snapshots of
processes, so it depends on neither of them.

GRACE_S   a process that has died, or that is stopped (SIGSTOP), ends the run this much later. A run
          that ends well takes its processes down one after another, within seconds
STALL_S   the run ends after this time without progress, or after STALLED times the longest step so
          far if that is longer. Before the first step the limit is FIRST times as long, because
          weights, kernels and a checkpoint come from slow disks
"""

import ctypes
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import psutil

from common.errors import require

GRACE_S = 60.0
DIED = "has died"
# Counted at most between two looks: in a longer gap this process was suspended too, or slow.
COUNTED_S = 15.0
STALL_S = 30 * 60.0  # a whole step takes 25 to 540 s in SimpleRL-Zoo, EasyR1, NeMo-RL
STALLED = 5  # steps; responses grow in training, but not fivefold from one step to the next
FIRST = 2
MINUTES = "RLVR_STALL_MINUTES"  # environment variable that replaces STALL_S: slow disks, drills
# Processes that a run needs: Ray's own two, its actors (classes; functions and idle workers may end
# at any time) and vLLM's.
NEEDED = re.compile(
    r"(?:^|/)(?:raylet|gcs_server)(?: |$)|^ray::(?!IDLE|SPILL_|RESTORE_|DELETE_)\w*[A-Z]|^VLLM::"
)


@dataclass(frozen=True)
class SeenProcess:
    pid: int
    ident: float  # the system gives the pid of an ended process to another one
    name: str
    stopped: bool = False
    copy: bool = False  # a fork that has its parent's title: a starting compiler, a data loader

    @property
    def needed(self) -> bool:
        return not self.copy and NEEDED.search(self.name) is not None

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def parts(processes: Iterable[psutil.Process]) -> list[SeenProcess]:
    """Return a snapshot of `processes`. A process that ends meanwhile is left out."""
    seen = {}
    for process in processes:
        try:
            name, stopped = name_of(process.cmdline()), process.status() == psutil.STATUS_STOPPED
            # hash, as psutil's creation time moves when the system clock is corrected
            seen[process.pid] = process.ppid(), hash(process), name, stopped
        except psutil.Error:
            continue
    titles = {pid: name.split(".")[0] for pid, (_, _, name, _) in seen.items()}
    return [
        SeenProcess(pid, ident, name, stopped, copy=titles[pid] == titles.get(parent))
        for pid, (parent, ident, name, stopped) in seen.items()
    ]


def name_of(words: list[str]) -> str:
    """Return a process's name for messages: its title, or program and module or script."""
    if not words:
        return "?"
    title = words[0].split("/")[-1] if len(words) > 1 else words[0].strip()
    if "-m" in words[1:-1]:
        title += " -m " + words[words.index("-m") + 1]
    elif scripts := [word for word in words[1:] if word.endswith(".py")]:
        title += " " + scripts[0].split("/")[-1]
    return title[:80]


def stall_s() -> float:
    """Return STALL_S, or the limit that MINUTES sets. Raises UserError unless it is above 0."""
    text = os.environ.get(MINUTES, f"{STALL_S / 60:g}")
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    require(minutes > 0, MINUTES, text, "give a number of minutes above 0, such as 30")
    return 60 * minutes


@dataclass
class Watch:
    """The state of the watchdog. Its owner calls `look` every few seconds."""

    stall_s: float
    longest: float = 0.0  # the longest step so far, in seconds
    _known: dict[tuple[int, float], SeenProcess] = field(default_factory=dict)
    # (problem, process) -> when it was seen first
    _since: dict[tuple[str, int, float], float] = field(default_factory=dict)
    _progress: object = None
    _moved: float = 0.0
    _looked: float | None = None
    _clock: float = 0.0  # advances only while this process runs

    def look(self, alive: list[SeenProcess], progress: object, now: float) -> str | None:
        """Return what is wrong with the snapshot `alive`, or None. `progress` is any value that
        changes when the run makes progress, `now` a clock in seconds."""
        now = self._counted(now)
        if progress != self._progress:
            self._progress, self._moved = progress, now
        return self._lost(alive, now) or self._stalled(alive, now)

    def _counted(self, now: float) -> float:
        """Return the seconds on a clock that stops while this process is suspended."""
        passed = 0.0 if self._looked is None else now - self._looked
        self._looked, self._clock = now, self._clock + min(passed, COUNTED_S)
        return self._clock

    def had_died(self, now: float) -> str | None:
        """Return which processes of an ended run died first, and when; None if none did. Processes
        that the end itself took down within the same look are named too."""
        since = {key: when for key, when in self._since.items() if key[0] == DIED}
        if not since:
            return None
        first = min(since.values())
        names = [str(self._known[key[1:]]) for key, when in since.items() if when == first]
        return f"{', '.join(names[:5])} had died {self._counted(now) - first:.0f} s before"

    def _lost(self, alive: list[SeenProcess], now: float) -> str | None:
        here = {(part.pid, part.ident): part for part in alive}
        dead = [part for key, part in self._known.items() if key not in here and part.needed]
        # the last name of a process counts: a Ray worker that has become idle may end
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

    def _stalled(self, alive: list[SeenProcess], now: float) -> str | None:
        waited, limit = now - self._moved, self.stall_s if self.longest else FIRST * self.stall_s
        if waited < max(limit, STALLED * self.longest):
            return None
        running = [str(part) for part in alive if part.needed]
        return (
            f"no progress for {waited / 60:.1f} minutes (the limit is the longer of {limit / 60:g} "
            f"minutes, by {MINUTES}, and {STALLED} times the longest step, {self.longest:.0f} s); "
            f"running: {', '.join(running[:12])}"
        )


def die_with_parent() -> None:
    """Have Linux kill this process when its parent ends: for `preexec_fn` of Popen."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def end_with_parent() -> None:
    """End this worker of `multiprocessing`, and the runs that it holds, with its parent."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch():
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
