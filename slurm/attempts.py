"""What a job records for `rlvr status`: its attempts, and how far its run has got."""

import json
import os
import time
from pathlib import Path

from common.backends.verl.checkpoints import LATEST, checkpointed
from common.evaluation.config import PAPER
from common.results.files import whole_rows
from slurm.stop import node_name


def began(path: Path, step: int) -> None:
    """Add the first line of an attempt to `path`, attempts.jsonl. A killed one has no second."""
    _append(path, {"start": time.time(), "step": step, "node": node_name(), "job": job_id()})


def ended(path: Path, how: str, *, again: bool = False, idle: bool = False) -> None:
    """Add the second line: when and how it ended. `again`: a fault ended it, and the job goes back
    into the queue. `idle`: it made no progress."""
    said = {"again": again, "idle": idle}
    _append(path, {"end": time.time(), "how": how} | {key: True for key in said if said[key]})


def _append(path: Path, row: dict) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


def attempts(folder: Path) -> list[dict]:
    return whole_rows(folder / "attempts.jsonl")


def run_folder(root: Path, paper: str, kind: str, key: str) -> Path:
    """Return the folder of a job's results. Papers share solve rates of the same start model."""
    return root / (PAPER if kind == "rates" else paper) / key


def progress(run: Path, kind: str) -> int:
    """Return the last step of a training or command, or the number of chunks or models measured."""
    if kind in ("evaluate", "rates", "score"):
        return len([*(run / "samples").glob("*.jsonl.gz")])
    if kind == "measure":
        return len([*(run / "steps").glob("*.csv")])
    if kind == "command":
        return int((run / LATEST).read_text()) if (run / LATEST).exists() else 0
    rows = whole_rows(run / "metrics.jsonl")
    return rows[-1]["step"] if rows else 0


def saved(run: Path, kind: str) -> int:
    """Return how far a run is if it starts now: a training is at its last whole checkpoint."""
    if kind != "train":
        return progress(run, kind)
    if (run / "work").exists():
        return checkpointed(run / "work")
    from common.backends import checkpoint  # imports torch: only in a job

    return checkpoint.step(run / "checkpoint.pt")


def job_id() -> str:
    """Return this job's id as scontrol takes it: `12`, `12_3` in an array, "" without SLURM."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID", "")
