"""Files in a run's work folder by which a launch of verl and the process that follows it
(process.py) tell each other about progress and stops."""

import os
import time
from contextlib import suppress
from pathlib import Path

BEAT = "beat"  # touched while responses are judged (reward.py) and micro-batches computed
STOP = "stop"  # if it exists, the trainer saves after its step and ends (experiment_trainer.py)
BEAT_S = 5.0  # seconds between two marks on the disk
JUDGED = "judged"  # a folder: how many training responses each process has judged
SLACK = 2  # marks are late by BEAT_S, and responses of one step may be judged in the next
START_S = 2 * 3600.0  # seconds in which the log counts as progress; a stalled launch may log on

_beaten: dict[Path, float] = {}


def beat(work: Path, judged: int | None = None) -> None:
    """Leave a mark that this launch makes progress, with the number of training responses that this
    process has `judged`, if it judges any."""
    if time.monotonic() > _beaten.get(work, 0.0) + BEAT_S:
        _beaten[work] = time.monotonic()
        with suppress(OSError):  # a full disk is noticed by those who must write
            (work / BEAT).touch()
            if judged is not None:
                (work / JUDGED).mkdir(exist_ok=True)
                (work / JUDGED / str(os.getpid())).write_text(str(judged))


class Drawing:
    """Decides whether judged responses are progress. They are progress until a step has judged more
    of them than it may draw, because sampling without end is no progress."""

    def __init__(self, work: Path, most: float):
        self.work, self.most = work, SLACK * most  # responses of a step
        self.before = 0
        self.last: tuple[int, int] | None = None

    def stepped(self) -> None:
        """Record that a step is over, so that the next step may draw as many responses again."""
        self.before = self._judged()

    def mark(self) -> object:
        """Return a value that changes when responses are judged that count as progress."""
        if self._judged() - self.before <= self.most:
            self.last = _stamp(self.work / BEAT)
        return self.last

    def _judged(self) -> int:
        total = 0
        for path in (self.work / JUDGED).glob("*"):
            with suppress(OSError, ValueError):  # the file is being written
                total += int(path.read_text())
        return total


def progress(work: Path, log: Path | None, metrics: Path, mark: object) -> object:
    """Return a value that changes when a run makes progress: the `mark` of Drawing, steps, files of
    checkpoints, of kept models and of validations. The log counts only until the first mark,
    because messages that repeat themselves are no progress."""
    files = {}
    for folder in (work / "checkpoints", work / "validation", work.parent / "checkpoints"):
        with suppress(OSError):  # an old checkpoint is deleted while we look
            files |= {path: _stamp(path) for path in folder.rglob("*")}
    return mark, _stamp(metrics), files, _stamp(log) if log and mark is None else None


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
