"""Files in a run's work folder by which verl and process.py tell of progress and stops."""

import time
from contextlib import suppress
from pathlib import Path

BEAT = "beat"  # touched while responses are judged (reward.py) and micro-batches computed
STOP = "stop"  # if it exists, the trainer saves after its step and ends (experiment_trainer.py)
BEAT_S = 5.0  # seconds between two marks on the disk
START_S = 2 * 3600.0  # seconds in which the log counts as progress; a stalled launch may log on

_beaten: dict[Path, float] = {}


def beat(work: Path) -> None:
    """Leave a mark that this launch makes progress."""
    if time.monotonic() > _beaten.get(work, 0.0) + BEAT_S:
        _beaten[work] = time.monotonic()
        with suppress(OSError):  # a full disk is noticed by those who must write
            (work / BEAT).touch()


def progress(work: Path, log: Path | None, metrics: Path) -> object:
    """Return a value that changes when a run makes progress: marks, steps, and files of checkpoints
    and validations. The log counts only until the first mark, because messages may repeat."""
    files, mark = {}, _stamp(work / BEAT)
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
