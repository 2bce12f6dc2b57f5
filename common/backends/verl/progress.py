"""What a launch of verl and the process that follows it (process.py) tell each other, by files in
the run's work folder."""

import time
from contextlib import suppress
from pathlib import Path

BEAT = "beat"  # touched while responses are judged (reward.py) and micro-batches computed
STOP = "stop"  # is there: the trainer saves after its step, and ends (experiment_trainer.py)
BEAT_S = 5.0  # between two marks on the disk
START_S = 2 * 3600.0  # in which the log counts as progress; one that waits for ever may talk

_beaten: dict[Path, float] = {}


def beat(work: Path) -> None:
    """Leave a mark that this launch moves on."""
    if time.monotonic() > _beaten.get(work, 0.0) + BEAT_S:
        _beaten[work] = time.monotonic()
        with suppress(OSError):  # a full disk is noticed by those who must write
            (work / BEAT).touch()


def progress(work: Path, log: Path | None, metrics: Path) -> object:
    """A value that changes where a run moves on: marks, steps, files of checkpoints, of kept models
    and of validations. The log counts until the first mark only: what repeats itself in it is no
    progress."""
    mark, files = _stamp(work / BEAT), {}
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
