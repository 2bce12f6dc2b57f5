"""The record of what was submitted: `results/<paper>/cluster/<submission>/`. It is written at
submission and read by status.

code/        the snapshot that the jobs import,         configs/  one frozen YAML per job
             and COMMIT, the commit it was made from
jobs.json    key, kind, job id, log, prediction         logs/     SLURM's and submitit's files
meta.json    commit, command, profile                   runs/     tasks, attempts.jsonl of each job
"""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import yaml

from common.config.files import ROOT
from common.errors import UserError, require
from common.results.files import write, write_json
from common.results.run import COMMIT, source

PACKAGES = ("common", "papers", "configs", "slurm")


def folder(root: Path, paper: str) -> Path:
    return root / paper / "cluster"


def create(root: Path, paper: str) -> Path:
    """Create a submission folder, named by the time. Raises UserError if `root` is not writable."""
    said = "SLURM reads % in a log's name as a pattern; choose a folder without %"
    require("%" not in str(root), "results_dir", root, said)
    path = folder(root, paper) / datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    try:
        for name in ("configs", "logs", "runs"):  # without its folder SLURM writes no log
            (path / name).mkdir(parents=True)
    except OSError as error:
        remedy = f"{error.strerror}; choose another with results_dir=FOLDER"
        raise UserError(f"cannot write results_dir={root}: {remedy}") from error
    return path


def freeze(path: Path, configs: dict, profile) -> None:
    """Copy the code, with its commit, and write every configuration (key -> dataclass), so that
    later edits do not change waiting jobs."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / package, path / "code" / package, ignore=ignored)
    for key, config in configs.items():
        write(path / "configs" / f"{key}.yaml", yaml.safe_dump(asdict(config), sort_keys=False))
    made_of = source()
    write_json(path / "code" / COMMIT, made_of)
    meta = {"command": sys.argv, "profile": asdict(profile)} | made_of
    write_json(path / "meta.json", meta)


def write_tasks(file: Path, tasks: Sequence) -> Path:
    write_json(file, [asdict(task) for task in tasks])
    return file


def add(path: Path, rows: list[dict]) -> None:
    """Add submitted jobs to jobs.json, after each sbatch: no job may be forgotten."""
    write_json(path / "jobs.json", [*_rows(path / "jobs.json"), *rows])


def latest(root: Path, paper: str) -> dict[str, dict]:
    """Return key -> the newest submission of that job, with its folder as `submission`."""
    found = {}
    for file in sorted(folder(root, paper).glob("*/jobs.json")):
        for row in _rows(file):
            found[row["key"]] = row | {"submission": str(file.parent)}
    return found


def _rows(file: Path) -> list[dict]:
    try:
        return json.loads(file.read_text()) if file.exists() else []
    except ValueError as error:
        raise UserError(f"{file} is damaged ({error}); restore it or move its folder") from error
