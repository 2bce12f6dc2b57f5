"""What was submitted: `results/<paper>/cluster/<submission>/`, made at submission, read by status.

code/        the snapshot that the jobs import,         configs/  one frozen YAML a run
             and COMMIT, the commit it was made of
jobs.json    key, kind, job id, log, prediction         logs/     SLURM's and submitit's files
meta.json    commit, command, profile                   runs/     attempts.jsonl of each job
"""

import json
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path

import yaml

from common.config.files import ROOT
from common.errors import UserError
from common.results.files import write, write_json
from common.results.run import COMMIT, source

PACKAGES = ("common", "papers", "configs", "slurm")


def folder(root: Path, paper: str) -> Path:
    return root / paper / "cluster"


def create(root: Path, paper: str) -> Path:
    """A new submission folder, named by the time; two in a second get a number."""
    name = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        path = folder(root, paper) / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(
                f"cannot write results_dir={root}: {error.strerror}; choose another with "
                "results_dir=FOLDER"
            ) from error
        for name in ("configs", "logs", "runs"):  # SLURM makes no folder for a log: it writes none
            (path / name).mkdir()
        return path
    raise UserError(f"{folder(root, paper)}: a thousand submissions in one second")


def freeze(path: Path, configs: dict, profile) -> None:
    """Copy the code and write every configuration (key -> dataclass), so that later edits change no
    waiting job. A run's meta.json takes its commit from code/COMMIT: the copy is no checkout."""
    try:
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(ROOT / package, path / "code" / package, ignore=ignored)
    except OSError as error:
        raise UserError(f"cannot copy the code to {path}: {error}; free space there") from error
    for key, config in configs.items():
        write(path / "configs" / f"{key}.yaml", yaml.safe_dump(asdict(config), sort_keys=False))
    made_of = source()
    write_json(path / "code" / COMMIT, made_of)
    meta = {"command": sys.argv, "profile": asdict(profile)} | made_of
    write_json(path / "meta.json", meta)


def add(path: Path, rows: list[dict]) -> None:
    """Add submitted jobs to jobs.json: after each sbatch, so that none is ever forgotten."""
    write_json(path / "jobs.json", [*_rows(path / "jobs.json"), *rows])


def latest(root: Path, paper: str) -> dict[str, dict]:
    """key -> the newest submission of that job, with its folder as `submission`."""
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
