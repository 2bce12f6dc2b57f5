"""The finished runs of a paper and their rows, each checked against its `DONE` marker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pandas as pd
import yaml

from common.errors import UserError
from common.results.checks import check_rows, checked_counts
from common.results.files import read_csv, sha256_of

WORDS = {
    "missing": "is missing since the run finished",
    "changed": "was changed since the run finished",
}
# Like the files in eval/ they hold result rows or counts, or say what these belong to.
NUMBERS = ("config.yaml", "metrics.csv", "counts.csv", "checkpoint.json")


@cache
def _file_sha256(path: str, size: int, modified: int) -> str:
    """Cached: a comparison asks for the same files again; size and time tell of a change."""
    return sha256_of(Path(path))


def damage(run: Path, among: Iterable[str] = ()) -> dict[str, str]:
    """Return the files of a finished run that are "missing" or were "changed" since `DONE`, by
    their path in the run; with `among`, only these names. Raises UserError where the marker is
    missing or damaged."""
    marker = run / "DONE"
    if not marker.exists():
        raise UserError(f"{run} is unfinished (no DONE marker); run it again to resume")
    try:
        hashes = json.loads(marker.read_text()).items()
    except (ValueError, AttributeError) as error:
        raise UserError(f"{marker} is damaged; delete it and run again") from error
    damaged = {}
    for name, digest in hashes:
        file = run / name
        if among and name not in among:
            continue
        if not file.exists():
            damaged[name] = "missing"
        elif _file_sha256(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) != digest:
            damaged[name] = "changed"
    return damaged


def verify(run: Path) -> list[str]:
    """Return a message for each file of a finished run that is missing or changed since `DONE`, or
    one on the marker itself."""
    try:
        return [f"{run / name} {WORDS[state]}" for name, state in damage(run).items()]
    except UserError as error:
        return [str(error)]


def finished_runs(root: Path, paper: str) -> tuple[dict[Path, dict[str, str]], list[str]]:
    """Return the finished runs of a paper that have rows, each with its `damage`, and messages on
    what was left out and why. A damaged file leaves the run out if its numbers come from it
    (NUMBERS, eval/)."""
    finished, left_out = {}, []
    marks = ("config.yaml", "DONE")  # one of them marks a run folder; figures/ has neither
    folders = (root / paper).glob("*/")
    for run in sorted(path for path in folders if any((path / mark).exists() for mark in marks)):
        try:
            damaged = damage(run)
        except UserError as error:
            left_out.append(str(error))
            continue
        problems = [f"{run / name} {WORDS[state]}" for name, state in damaged.items()]
        if any(name in NUMBERS or name.startswith("eval/") for name in damaged):
            left_out += problems
        elif (run / "metrics.csv").exists():
            finished[run] = damaged
            left_out += [f"{problem}; its numbers are shown grey" for problem in problems]
    return finished, left_out


def collect(runs: Iterable[Path]) -> tuple[dict[Path, pd.DataFrame], list[str]]:
    """Return the rows of each of these finished runs, and messages on what was left out: rows that
    cannot be results, tables that cannot be read, and rows with the run_id of an earlier folder."""
    found: dict[Path, pd.DataFrame] = {}
    left_out: list[str] = []
    seen: dict[str, Path] = {}
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
                left_out.append(f"{path}: has the run id {name} of {seen[name]}; left out")
                rows = rows[rows["run_id"] != name]
        if len(rows):
            found[run] = rows
    return found, left_out


def evaluations(run: Path) -> list[pd.DataFrame]:
    return [read_csv(path) for path in sorted((run / "eval").glob("step-?????.csv"))]


def counts_of(run: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return (the counts of all evaluations of a run, with their `step`; what was left out)."""
    frames, problems = [], []
    for path in sorted((run / "eval").glob("step-?????-counts.csv")):
        frame, more = checked_counts(path)
        problems += more
        if len(frame):
            frames.append(frame.assign(step=int(path.name[5:10])))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(), problems


def config_of(run: Path) -> dict:
    config = run / "config.yaml"
    if not config.exists():
        return {}
    return _config_in(str(config), (stat := config.stat()).st_size, stat.st_mtime_ns)


@cache
def _config_in(path: str, size: int, modified: int) -> dict:
    """Cached as in `_file_sha256`: reading YAML is slow."""
    return yaml.load(Path(path).read_text(), Loader=yaml.CSafeLoader)
