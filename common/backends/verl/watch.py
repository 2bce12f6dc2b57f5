"""Whether a launch of verl still lives: which of its processes has died, was stopped, or whether
nothing has moved for too long.

Ray and vLLM do not always notice: a driver then waits for ever for an answer of a process that is
gone. What is looked at here are snapshots of processes, so this knows no Ray. Two limits:

GRACE_S   a part that has died, or that is stopped (SIGSTOP), ends the run this much later: a run
          that ends well takes its parts down one after another, within seconds
STALL_S   without progress (a step, a judged response, a checkpoint, a validation file; until the
          first of these a line of the log), or STALLED times the longest step so far, if longer
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from common.errors import require

GRACE_S = 60.0
SUSPENDED_S = 30.0  # between two looks: we were stopped ourselves (scontrol suspend)
STALL_S = 30 * 60.0  # the update of a 7B step takes minutes (facts of EasyR1, SimpleRL-Zoo: 540 s)
STALLED = 5  # steps; responses grow in training, but not fivefold from one step to the next
MINUTES = "RLVR_STALL_MINUTES"  # environment: another STALL_S, for a slow disk or a drill
BEAT = "beat"  # in the work folder, touched while responses are judged (reward.py)
STOP = "stop"  # in the work folder: the trainer saves after its step, and ends
# Ray's own two, its actors (classes; functions and idle workers may end at any time), vLLM's parts
NEEDED = re.compile(
    r"(?:^|/)(?:raylet|gcs_server)(?: |$)|^ray::(?!IDLE|SPILL_|RESTORE_|DELETE_)\w*[A-Z]|^VLLM::"
)


@dataclass(frozen=True)
class Part:
    """One process of a launch, as it was seen."""

    pid: int
    born: float  # a number is given again after its process has ended
    name: str
    stopped: bool = False

    @property
    def needed(self) -> bool:
        return NEEDED.search(self.name) is not None

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def parts(processes: Iterable[psutil.Process]) -> list[Part]:
    """A snapshot; what ends while it is taken is left out."""
    found = []
    for process in processes:
        try:
            words, stopped = process.cmdline(), process.status() == psutil.STATUS_STOPPED
            found.append(Part(process.pid, process.create_time(), name_of(words), stopped))
        except psutil.Error:
            continue
    return found


def name_of(words: list[str]) -> str:
    """A process as a message names it: its title, or program and module."""
    if not words:
        return "?"
    title = words[0].split("/")[-1] if len(words) > 1 else words[0].strip()
    if "-m" in words[1:-1]:
        title += " -m " + words[words.index("-m") + 1]
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

    stall_s: float = field(
        default_factory=lambda: 60 * float(os.environ.get(MINUTES, STALL_S / 60))
    )
    may_end: bool = False  # several launches share the processes: what ends has not died
    longest: float = 0.0  # step, in seconds
    _known: dict[tuple[int, float], Part] = field(default_factory=dict)
    _since: dict[tuple, float] = field(default_factory=dict)  # (what, process) -> when seen first
    _progress: object = None
    _moved: float | None = None
    _looked: float | None = None

    def look(self, now_parts: list[Part], progress: object, now: float) -> str | None:
        """What is wrong, in words, or None. `progress` is any value that changes where the run
        moves on, `now` a clock in seconds."""
        if self._looked is None or now - self._looked > SUSPENDED_S:
            # the first, or we ourselves were suspended, and the others with us
            self._since.clear()
            self._moved = now
        self._looked = now
        if progress != self._progress:
            self._progress, self._moved = progress, now
        alive = {(part.pid, part.born): part for part in now_parts}
        dead = [part for key, part in self._known.items() if key not in alive and part.needed]
        dead = [] if self.may_end else dead
        # the last name counts: a worker of Ray that has become idle may end
        self._known = {**{(part.pid, part.born): part for part in dead}, **alive}
        wrong = {("has died", part): None for part in dead}
        wrong |= {("is stopped (SIGSTOP)", part): None for part in now_parts if part.stopped}
        keys = {(what, part.pid, part.born): (what, part) for what, part in wrong}
        self._since = {key: self._since.get(key, now) for key in keys}
        late = [key for key, since in self._since.items() if now - since >= GRACE_S]
        if late:
            first = min(late, key=self._since.__getitem__)
            what, part = keys[first]
            others = [str(keys[key][1]) for key in keys if key != first]
            also = f"; so are or have {', '.join(others[:5])}" if others else ""
            return f"{part} {what}, {now - self._since[first]:.0f} s ago{also}"
        limit = max(self.stall_s, STALLED * self.longest)
        if now - self._moved >= limit:
            return (
                f"no progress for {(now - self._moved) / 60:.1f} minutes (the limit is the longer "
                f"of {self.stall_s / 60:g} minutes, {MINUTES}, and {STALLED} times the longest "
                f"step, {self.longest:.0f} s); running: {', '.join(map(str, _needed(now_parts)))}"
            )
        return None


def _needed(found: list[Part]) -> list[Part]:
    return [part for part in found if part.needed][:12]


def progress(work: Path, log: Path, metrics: Path) -> object:
    """A value that changes where a run moves on. The log counts until the first response is judged
    only: what repeats itself in it is no progress."""
    beat, files = _stamp(work / BEAT), {}
    for name in ("checkpoints", "validation"):
        with suppress(OSError):  # an old checkpoint goes while we look
            files |= {path: _stamp(path) for path in (work / name).rglob("*")}
    return beat, _stamp(metrics), files, _stamp(log) if beat is None else None


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
