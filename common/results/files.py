"""Reading and writing files: every write is atomic (temporary file, fsync, rename)."""

from __future__ import annotations

import csv
import errno
import gzip
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, BinaryIO

from common.errors import Fault, UserError
from common.results.columns import COLUMNS

if TYPE_CHECKING:  # most processes read no table, and it takes half a second
    import pandas as pd

# Errors that may be temporary: a full disk or quota, an I/O error, a stale file handle.
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE)


def write(path: Path, data: str | bytes) -> None:
    with writing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def sweep(folder: Path, pattern: str = ".*.tmp", *, age: float = 86_400) -> None:
    """Remove what killed writers left in a folder. Anything younger than `age` seconds may still be
    in use by another process."""
    for left in list(folder.glob(pattern)):
        with suppress(OSError):
            if time() - left.stat().st_mtime >= age:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that appears at `path` when the block has ended well; else nothing changes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):  # where the folder cannot be made, there is nothing to remove
            temporary.unlink()
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: Exception) -> UserError:
    """Return the error for a failed write; safetensors' errors have no number and count as I/O."""
    kind = Fault if getattr(error, "errno", errno.EIO) in PASSING else UserError
    return kind(
        f"cannot write {path}: {getattr(error, 'strerror', error)}. Free space, or choose a "
        "writable folder with results_dir=FOLDER; what was finished before is kept."
    )


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a table atomically, with 10 significant digits and empty cells for missing values. A
    path in .gz has a fixed time stamp, so that equal tables give equal bytes."""
    form = {"index": False, "float_format": "%.10g", "lineterminator": "\n"}
    text = frame.to_csv(**form)
    if "\r" in text:  # it ends a line too; before Python 3.13 a lone one is not quoted
        text = frame.to_csv(**form, quoting=csv.QUOTE_NONNUMERIC)
    write(path, gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text)


def write_json(path: Path, value: object) -> None:
    write(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def write_jsonl_gz(path: Path, rows: list[dict]) -> None:
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    write(path, gzip.compress(text.encode(), compresslevel=6, mtime=0))


def read_jsonl(path: Path) -> list[dict]:
    """Return the rows of a `.jsonl` or `.jsonl.gz` file, without byte-order mark and empty lines.
    Raises UserError if the file is missing or a line is damaged."""
    rows, lines = [], 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(
            path, "rt", encoding="utf-8-sig", newline="\n"
        ) as file:
            for line in file:
                if line.strip():
                    rows.append(json.loads(line))
                lines += 1
            return rows
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; run what makes it first") from error
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise UserError(
            f"{path}, line {lines + 1}: cannot be read ({error}); fix the line, or run the "
            "command that wrote the file again"
        ) from error


def read_csv(path: Path, columns: list[str] = COLUMNS) -> pd.DataFrame:
    """Return a table, plain or gzipped. Raises UserError if it is missing or damaged, or does not
    start with `columns`."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype={"problem_id": str})
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; run what makes it first") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:  # pandas' are ValueErrors
        raise UserError(f"{path} is damaged ({error}); delete it and run again") from error
    if list(frame.columns[: len(columns)]) != list(columns):
        raise UserError(
            f"{path} starts with columns {list(frame.columns)}, expected {list(columns)}; "
            "it was not written by this version, delete it and run again"
        )
    return frame


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes(files: Sequence[str | Path]) -> dict[str, str]:
    """Return the SHA-256 of each file, by its path relative to the folder that holds them all."""
    paths = [Path(file).absolute() for file in files]
    top = os.path.commonpath([path.parent for path in paths])
    return {path.relative_to(top).as_posix(): sha256_of(path) for path in paths}


def config_hash(config: dict) -> str:
    """Return eight hex digits that identify a configuration, whatever the order of its keys."""
    return sha256(json.dumps(config, sort_keys=True).encode())[:8]


def require_steps(path: Path, last: int) -> None:
    """Raise UserError unless `metrics.jsonl` has every step up to the checkpoint's, `last`.
    Otherwise whatever is counted over all steps would be silently wrong."""
    steps = {row["step"] for row in whole_rows(path)}
    lost = [step for step in range(1, last + 1) if step not in steps]
    if lost:
        raise UserError(
            f"{path}: lacks {len(lost)} of the {last} steps before the checkpoint, first step "
            f"{lost[0]}; restore the file, or delete {path.parent} and run again"
        )


def whole_rows(path: Path) -> list[dict]:
    """Return the rows of a JSONL file up to the first damaged row, for files whose writer is at
    work or was killed; [] where there is no file."""
    rows: list[dict] = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            rows.append({} | json.loads(line))
        except (ValueError, TypeError, RecursionError):
            break
    return rows


@contextmanager
def jsonl_appender(path: Path, keep_until_step: int):
    """Yield a function that appends a row to `metrics.jsonl`, after dropping the rows past the
    checkpoint that the run resumes from."""
    kept = [row for row in whole_rows(path) if row["step"] <= keep_until_step]
    _write_rows(path, kept)

    def append(row: dict) -> None:
        try:
            with open(path, "ab", buffering=0) as file:  # `amend` may have replaced it
                file.write((json.dumps(row) + "\n").encode())
        except OSError as error:
            raise cannot_write(path, error) from error

    yield append


def amend(path: Path, step: int, columns: dict) -> None:
    _write_rows(path, [row | columns if row["step"] == step else row for row in whole_rows(path)])


def _write_rows(path: Path, rows: list[dict]) -> None:
    write(path, "".join(json.dumps(row) + "\n" for row in rows))
