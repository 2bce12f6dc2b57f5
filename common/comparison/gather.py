"""Rows, counts and provenance of finished runs, gathered into tables, and read again."""

import gzip
from pathlib import Path

import pandas as pd

from common.claims.select import PER_PROBLEM
from common.errors import UserError
from common.results import provenance
from common.results.checks import check_counts, check_rows, read_counts
from common.results.collect import collect, finished_runs
from common.results.columns import COLUMNS
from common.results.files import read_csv, write, write_csv

LAPTOP, CLUSTER = "laptop", "cluster"
RERUNS = (LAPTOP, CLUSTER)


def gather(root: Path, paper: str, scope: str) -> list[str]:
    """Write `<root>/<paper>/<scope>/metrics.csv`, `counts.csv.gz` and `runs.csv` (where they come
    from) from the finished run folders.

    Returns what was left out and why. Without run folders nothing is written, so tables that came
    without their runs (results/reference/) stay as they are.
    """
    rows, left_out = collect(root, paper, scope)
    if rows.empty:
        return left_out
    folder = root / paper / scope
    before = folder / "runs.csv"
    if before.exists():
        gone = set(pd.read_csv(before, dtype=str)["run_id"]) - set(rows["run_id"])
        left_out += [
            f"{root / paper / run}: was in the last comparison and is gone"
            for run in sorted(gone)
            if not (root / paper / run).exists()
        ]
    write_csv(folder / "metrics.csv", rows)
    runs, _ = finished_runs(root, paper, scope)
    frames, traced = [], []
    for run, damage in runs.items():
        if (rows["run_id"] == run.name).any():
            counts, problems = _counts(run)
            left_out += problems
            frames += [counts] if len(counts) else []
            first = rows[rows["run_id"] == run.name].iloc[0]
            named = {name: first[name] for name in ("run_id", "table", "model", "method", "seed")}
            traced.append({"scope": scope, **named, **provenance.trace(root, run, damage)})
    counts = pd.concat(frames) if frames else pd.DataFrame(columns=PER_PROBLEM)
    text = counts.reindex(columns=PER_PROBLEM).to_csv(index=False, lineterminator="\n")
    write(folder / "counts.csv.gz", gzip.compress(text.encode(), mtime=0))
    write_csv(folder / "runs.csv", pd.DataFrame(traced, columns=provenance.COLUMNS))
    return left_out


def read(root: Path, paper: str, scope: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The gathered (rows, counts) of a scope; both empty if there are none."""
    return read_checked(root, paper, scope)[:2]


def read_checked(
    root: Path, paper: str, scope: str
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """The gathered rows and counts of a scope, and what was left out of them."""
    folder = root / paper / scope
    rows, counts = pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=PER_PROBLEM)
    if not (folder / "metrics.csv").exists():
        return rows, counts, []
    try:
        rows, problems = check_rows(read_csv(folder / "metrics.csv"), str(folder / "metrics.csv"))
    except UserError as error:
        return rows, counts, [str(error)]
    place = folder / "counts.csv.gz"
    if place.exists():
        table, more = read_counts(place)
        problems += more
        if len(table):
            counts, more = check_counts(table, str(place))
            problems += more
    return rows, counts, problems


def lost_runs(root: Path, paper: str, missing: pd.DataFrame) -> pd.DataFrame:
    """Runs that should have a result and have none that can be used: jobs without a result, and
    finished runs with missing or changed numbers."""
    lost = [
        {
            **{name: row[name] for name in ("table", "model", "method")},
            "state": "",
            "reason": f"{row['key']}: {row['state']} {row['detail']}".strip(),
        }
        for row in missing.to_dict("records")
    ]
    used = {run for scope in RERUNS for run in finished_runs(root, paper, scope)[0]}
    for marker in sorted((root / paper).glob("*/DONE")):
        named = (
            {} if marker.parent in used else provenance.planned(root / paper, marker.parent.name)
        )
        if named.get("method"):
            lost.append({**named, "state": "changed", "reason": f"{marker.parent.name}: damaged"})
    return pd.DataFrame(lost, columns=["table", "model", "method", "state", "reason"])


def runs(rows: pd.DataFrame) -> pd.DataFrame:
    """table, model, method, seed and last step of every run, by run_id."""
    first = rows.groupby("run_id", sort=False)[["table", "model", "method", "seed"]].first()
    return first.assign(step=rows.groupby("run_id", sort=False)["step"].max())


def _counts(run: Path) -> tuple[pd.DataFrame, list[str]]:
    """Every evaluation's counts of one run, with the columns that name it; what was left out."""
    first = read_csv(run / "metrics.csv").iloc[0]
    frames, problems = [], []
    for path in sorted((run / "eval").glob("step-?????-counts.csv")):
        frame, more = read_counts(path)
        problems += more
        if len(frame):
            frame, more = check_counts(frame, str(path))
            problems += more
            frames.append(frame.assign(step=int(path.name[5:10])))
    if not frames:
        return pd.DataFrame(), problems
    counts = pd.concat(frames)
    for column in ("table", "model", "method", "seed"):
        counts[column] = first[column]
    return counts.reindex(columns=PER_PROBLEM), problems
