"""What a launch of verl and the process that follows it (process.py) tell each other, by files in
the run's work folder."""

import os
import time
from contextlib import suppress
from pathlib import Path

BEAT = "beat"  # touched while responses are judged (reward.py) and micro-batches computed
STOP = "stop"  # is there: the trainer saves after its step, and ends (experiment_trainer.py)
BEAT_S = 5.0  # between two marks on the disk
JUDGED = "judged"  # a folder: how many responses of training each process has judged
SLACK = 2  # marks are late by BEAT_S, and what is drawn for a step may be judged in the next
START_S = 2 * 3600.0  # in which the log counts as progress; one that waits for ever may talk

_beaten: dict[Path, float] = {}


def beat(work: Path, judged: int | None = None) -> None:
    """Leave a mark that this launch moves on, with how many responses of training this process has
    `judged`, if it is one that does."""
    if time.monotonic() > _beaten.get(work, 0.0) + BEAT_S:
        _beaten[work] = time.monotonic()
        with suppress(OSError):  # a full disk is noticed by those who must write
            (work / BEAT).touch()
            if judged is not None:
                (work / JUDGED).mkdir(exist_ok=True)
                (work / JUDGED / str(os.getpid())).write_text(str(judged))


class Drawing:
    """Responses that are judged are progress while a step has not judged more of them than it may
    draw: sampling that goes on without end is none."""

    def __init__(self, work: Path, most: float):
        self.work, self.most = work, SLACK * most  # responses a step
        self.before = 0
        self.last: tuple[int, int] | None = None

    def stepped(self) -> None:
        """A step is over: the next one may draw as many."""
        self.before = self._judged()

    def mark(self) -> object:
        """A value that changes where responses are judged that count."""
        if self._judged() - self.before <= self.most:
            self.last = _stamp(self.work / BEAT)
        return self.last

    def _judged(self) -> int:
        total = 0
        for path in (self.work / JUDGED).glob("*"):
            with suppress(OSError, ValueError):  # it is being written
                total += int(path.read_text())
        return total


def progress(work: Path, log: Path | None, metrics: Path, mark: object) -> object:
    """A value that changes where a run moves on: the `mark` of Drawing, steps, files of
    checkpoints, of kept models and of validations. The log counts until the first mark only: what
    repeats itself in it is no progress."""
    files = {}
    for folder in (work / "checkpoints", work / "validation", work.parent / "checkpoints"):
        with suppress(OSError):  # an old checkpoint goes while we look
            files |= {path: _stamp(path) for path in folder.rglob("*")}
    return mark, _stamp(metrics), files, _stamp(log) if log and mark is None else None


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
