"""A cache: the page is made again only if one of its inputs has changed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from common.config.files import ROOT
from common.report import sources
from common.results.files import write, write_json
from common.yardstick.third import EDITIONS

CODE = ("common", "papers", "configs", "slurm")
LIBRARIES = ("jinja2", "matplotlib", "numpy", "omegaconf", "pandas", "pillow", "scipy")
Build = Callable[[], tuple[str, list[str]]]


def page(target: Path, root: Path, reference: Path, build: Build) -> tuple[list[str], bool]:
    """Write the page to `target` with `build`, unless it is there and its `inputs` are unchanged.

    `build` returns (the page, what was left out of it). Returns (what was left out, whether the
    page was made). The hashes of the inputs and of the page are kept beside it, in made_of.json.
    """
    beside, wanted = target.with_name("made_of.json"), inputs(target, root, reference)
    try:
        last = json.loads(beside.read_text())
        if last["inputs"] == wanted and last["page"] == _sha256(target):
            return last["left_out"], False
    except (OSError, ValueError, LookupError, TypeError):
        pass  # the page was never made, or another version made it
    text, left_out = build()
    write(target, text)
    write_json(beside, {"inputs": wanted, "page": _sha256(target), "left_out": left_out})
    return left_out, True


def inputs(target: Path, root: Path, reference: Path) -> str:
    """Return the SHA-256 of everything that the page depends on.

    Code, configurations, claims, printed numbers and committed results count by their contents.
    Results in `root`, which may be gigabytes, count by the size and time of each file, libraries by
    their version. The relative paths from the page to these folders count too.
    """
    digest = hashlib.sha256()
    names = [*sources.papers(ROOT / "papers"), *EDITIONS]
    folders = [ROOT / name for name in CODE] + [reference / name for name in names]
    for file in _files(folders):
        digest.update(f"{os.path.relpath(file, ROOT)} {_sha256(file)}\n".encode())
    for file in _files([root / name for name in names]):
        state = file.stat()
        line = f"{os.path.relpath(file, root)} {state.st_size} {state.st_mtime_ns}\n"
        digest.update(line.encode())
    places = [os.path.relpath(path, target.parent) for path in (ROOT, root, reference)]
    versions = [sys.version, *(version(name) for name in LIBRARIES)]
    digest.update("\n".join([*places, *versions]).encode())
    return digest.hexdigest()


def _files(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
