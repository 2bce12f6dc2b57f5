"""What a job leaves behind for the status: its attempts, and how far its run is."""

import json
import os
import time
from pathlib import Path

from common.backends.verl.checkpoints import LATEST, checkpointed
from common.evaluation.config import PAPER
from common.results.files import whole_rows


class Attempt:
    """Lines of attempts.jsonl: when an attempt began, at which step, and when and how it ended. One
    that was killed has no second line."""

    def __init__(self, path: Path, step: int):
        self.path = path
        node = os.environ.get("SLURMD_NODENAME", "")
        _append(path, {"start": time.time(), "step": step, "node": node, "job": job_id()})

    def end(self, how: str, again: bool = False) -> None:
        """`again`: a fault ended it, and the job goes back into the queue (slurm/retry.py)."""
        ended(self.path, how, **({"again": True} if again else {}))


def ended(path: Path, how: str, **more: bool) -> None:
    """Add the second line of an attempt to the file `path`."""
    _append(path, {"end": time.time(), "how": how} | more)


def _append(path: Path, row: dict) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


def attempts(folder: Path) -> list[dict]:
    """The lines of a job's attempts.jsonl; none if it never started."""
    return whole_rows(folder / "attempts.jsonl")


def run_folder(root: Path, paper: str, kind: str, key: str) -> Path:
    """Of a job's results. Solve rates are no paper's: runs that start alike share them."""
    return root / (PAPER if kind == "rates" else paper) / key


def progress(run: Path, kind: str) -> int:
    """How far a run is: the last step on its training curve, or that a command has saved, or the
    chunks that are sampled, or the models that are measured."""
    if kind in ("evaluate", "rates", "score"):
        return len([*(run / "samples").glob("*.jsonl.gz")])
    if kind == "measure":
        return len([*(run / "steps").glob("*.csv")])
    if kind == "command":
        return int((run / LATEST).read_text()) if (run / LATEST).exists() else 0
    rows = curve(run)
    return rows[-1]["step"] if rows else 0


def saved(run: Path, kind: str) -> int:
    """How far a run is that starts now: at a training's last whole checkpoint, else at its
    progress."""
    if kind != "train":
        return progress(run, kind)
    if (run / "work").exists():
        return checkpointed(run / "work")
    from common.backends import checkpoint  # torch: only in a job

    return checkpoint.step(run / "checkpoint.pt")


def curve(run: Path) -> list[dict]:
    """The training curve of a run that may be running."""
    return whole_rows(run / "metrics.jsonl")


def job_id() -> str:
    """This job, as scontrol takes it: `12` or, for one element of an array, `12_3`."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID", "")


def restart() -> str:
    return os.environ.get("SLURM_RESTART_COUNT", "0")
