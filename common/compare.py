"""From run folders to what is compared: gathered rows and counts, verdicts on claims, printed cells
beside reruns, and where each number comes from.

Nothing here reads more than result files: no model, no GPU, seconds. What cannot be read or cannot
be a result is named by file and line in `left_out`; everything else is still compared.
"""

import gzip
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pandas as pd

from common import cells, claims, provenance
from common.claim_rows import COUNTED
from common.cli import ROOT, options
from common.errors import UserError, require
from common.matched import at_matched_accuracy
from common.page import Columns, Page, SameRun
from common.provenance import GREY
from common.result_checks import check_counts, check_names, check_rows, read_counts
from common.results import COLUMNS, collect, finished_runs, read_csv, write, write_csv

__all__ = ["GREY", "Columns", "Comparison", "Page", "SameRun", "assess", "command", "compare"]
LAPTOP, CLUSTER = "laptop", "cluster"
RERUNS = (LAPTOP, CLUSTER)
FORMATS = ("terminal", "md", "csv", "json", "latex")
KEY = ["table", "model", "method", "benchmark", "metric", "k", "unit"]


@dataclass(frozen=True)
class Comparison:
    """Everything about one paper: tables for people, pages and tests."""

    page: Page
    verdicts: pd.DataFrame  # claims.judge's, and <scope>_state
    gaps: pd.DataFrame  # the comparisons behind the verdicts, claims.GAPS
    cells: pd.DataFrame  # every printed cell, cells.COLUMNS
    summary: pd.DataFrame  # printed rows, and reruns as mean over seeds, of both scopes
    detectable: pd.DataFrame  # minimum detectable difference of every benchmark
    notes: pd.DataFrame  # the paper's inconsistencies, with the tables and cells that they touch
    runs: pd.DataFrame  # provenance.COLUMNS
    missing: pd.DataFrame  # cluster jobs without a result
    left_out: list[str]


def page(paper: str) -> Page:
    """The PAGE of papers/<paper>/compare.py."""
    return import_module(f"papers.{paper}.compare").PAGE


def command(page: Page, doc: str) -> None:
    """`python -m papers.<paper>.compare`."""
    chosen = options(doc, {"results_dir": "results", "format": "terminal"})
    require(chosen["format"] in FORMATS, "format", chosen["format"], f"use one of {FORMATS}")
    compare(page, Path(chosen["results_dir"]), chosen["format"])


def compare(page: Page, root: Path, form: str = "terminal") -> None:
    """Print the comparison, and write it to <root>/<paper>/: claims.csv, gaps.csv, cells.csv,
    detectable.csv, comparison.{csv,md}."""
    from common import compare_text

    result = assess(page, root)
    for reason in result.left_out:
        print(f"left out: {reason}", file=sys.stderr)
    folder = root / page.paper
    for name in ("gaps", "cells", "detectable"):
        write_csv(folder / f"{name}.csv", getattr(result, name))
    write_csv(folder / "claims.csv", result.verdicts)
    write_csv(folder / "comparison.csv", result.summary)
    write(folder / "comparison.md", compare_text.markdown(result))
    if form == "terminal":
        compare_text.terminal(result)
        print(f"also in {folder}: claims, gaps, cells, detectable, comparison (.csv, .md)")
    else:
        print(compare_text.RENDERERS[form](result), end="")


def assess(page: Page, root: Path) -> Comparison:
    """Gather the finished runs below `root`, and compare them with the paper."""
    left_out = [problem for scope in RERUNS for problem in gather(root, page.paper, scope)]
    reruns, problems = {}, []
    for scope in RERUNS:
        *reruns[scope], found = read_checked(root, page.paper, scope)
        problems += found
    rows = {scope: frame for scope, (frame, _) in reruns.items()}
    home = ROOT / "papers" / page.paper
    printed, found = published_checked(home / "published")
    problems += found
    place = str(root / page.paper / CLUSTER / "metrics.csv")
    problems += check_names(rows[CLUSTER], printed, place, own_names(home))
    tables = [provenance.table(root, page.paper, scope, rows[scope]) for scope in RERUNS]
    runs = pd.concat([frame for frame in tables if len(frame)] or tables, ignore_index=True)
    missing, found = provenance.jobs(root, page.paper)
    problems += found
    as_printed = cells.as_printed(page, rows[CLUSTER])
    scopes = {"published": printed, **_with_own_rows(page, root, rows, as_printed)}
    counts = {scope: frame for scope, (_, frame) in reruns.items()}
    verdicts, gaps, found = judged(claims.load(home / "claims.yaml"), scopes, counts)
    problems += found
    for scope in claims.SCOPES:
        numbers = "computed" if scope in RERUNS else ""  # what no run stands for
        verdicts[f"{scope}_state"] = [
            provenance.of_runs(ids, runs) or ("" if verdict == "not run" else numbers)
            for ids, verdict in verdicts[[f"{scope}_runs", scope]].itertuples(index=False)
        ]
    lost = lost_runs(root, page.paper, missing)
    table = cells.compare_cells(page, printed, as_printed, page.exact(root), runs, lost)
    notes = pd.read_csv(home / "published" / "inconsistencies.csv", keep_default_na=False)
    return Comparison(
        page=page,
        verdicts=verdicts,
        gaps=gaps,
        cells=table,
        summary=summary({"published": printed, **rows}, runs),
        detectable=cells.detectable(page, printed, gaps),
        notes=cells.note_table(page, notes, table),
        runs=runs,
        missing=missing,
        left_out=list(dict.fromkeys([*left_out, *problems])),
    )


def judged(stated: list[dict], scopes: dict, counts: dict):
    """claims.judge, without the claims that cannot be decided on these rows, which are named."""
    try:
        return *claims.judge(stated, scopes, counts), []
    except UserError:
        pass
    fine, problems = [], []
    for claim in stated:
        try:
            claims.judge([claim], scopes, counts)
            fine.append(claim)
        except UserError as error:
            problems.append(f"{error}; this claim is left out")
    return *claims.judge(fine, scopes, counts), problems


def _with_own_rows(page: Page, root: Path, rows: dict, as_printed: pd.DataFrame) -> dict:
    """The rows of each rerun scope that claims speak of: measured ones, readings of them, and
    those of theory and simulation, which are the laptop's."""
    found = {}
    for scope, frame in rows.items():
        tables = frame["table"].unique() if scope == LAPTOP else ()
        parts = [frame, *(at_matched_accuracy(frame, table, page.pairs) for table in tables)]
        parts += page.own_rows(root) if scope == LAPTOP else []
        if scope == CLUSTER and len(as_printed):
            parts = [pd.concat([frame, as_printed]).drop_duplicates([*KEY, "seed", "step"])]
        parts = [part for part in parts if len(part)]
        if parts:
            found[scope] = pd.concat(parts, ignore_index=True)
    return found


def evaluate(page: Page, root: Path) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """The verdicts, and the rows of each scope that they rest on, of what was gathered before."""
    home = ROOT / "papers" / page.paper
    read_ = {scope: read(root, page.paper, scope) for scope in RERUNS}
    rows = {scope: frame for scope, (frame, _) in read_.items()}
    scopes = {"published": published(home / "published")}
    scopes |= _with_own_rows(page, root, rows, cells.as_printed(page, rows[CLUSTER]))
    counts = {scope: frame for scope, (_, frame) in read_.items()}
    return claims.evaluate(claims.load(home / "claims.yaml"), scopes, counts), scopes


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
    columns = [*COUNTED, "problem_id", "n", "c", "distinct"]
    counts = pd.concat(frames) if frames else pd.DataFrame(columns=columns)
    text = counts.reindex(columns=columns).to_csv(index=False, lineterminator="\n")
    write(folder / "counts.csv.gz", gzip.compress(text.encode(), mtime=0))
    write_csv(folder / "runs.csv", pd.DataFrame(traced, columns=provenance.COLUMNS))
    return left_out


def read(root: Path, paper: str, scope: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The gathered (rows, counts) of a scope; both empty if there are none."""
    return read_checked(root, paper, scope)[:2]


def read_checked(
    root: Path, paper: str, scope: str
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """The gathered rows and counts of a scope, and what of them was left out."""
    folder = root / paper / scope
    rows, counts = pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=[*COUNTED, "n", "c"])
    if not (folder / "metrics.csv").exists():
        return rows, counts, []
    try:
        rows, problems = check_rows(read_csv(folder / "metrics.csv"), str(folder / "metrics.csv"))
    except UserError as error:
        return rows, counts, [str(error)]
    place = folder / "counts.csv.gz"
    if place.exists():
        found, more = read_counts(place)
        problems += more
        if len(found):
            counts, more = check_counts(found, str(place))
            problems += more
    return rows, counts, problems


def lost_runs(root: Path, paper: str, missing: pd.DataFrame) -> pd.DataFrame:
    """Runs that should have a result and have none that can be used: jobs without a result, and
    finished runs with missing or changed numbers."""
    found = [
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
            found.append({**named, "state": "changed", "reason": f"{marker.parent.name}: damaged"})
    return pd.DataFrame(found, columns=["table", "model", "method", "state", "reason"])


def runs(rows: pd.DataFrame) -> pd.DataFrame:
    """table, model, method, seed and last step of every run, by run_id."""
    first = rows.groupby("run_id", sort=False)[["table", "model", "method", "seed"]].first()
    return first.assign(step=rows.groupby("run_id", sort=False)["step"].max())


def published(folder: Path) -> pd.DataFrame:
    """All printed cells of a paper: the rows of `published/table*.csv`; `printed` is the value as
    it is written there."""
    return published_checked(folder)[0]


def published_checked(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """The printed cells, and what of them was left out."""
    frames, problems = [], []
    for path in sorted(folder.glob("table*.csv")):
        as_text = pd.read_csv(path, usecols=["value"], dtype=str)["value"]
        frame, found = check_rows(pd.read_csv(path).assign(printed=as_text), str(path))
        frames.append(frame)
        problems += found
    return pd.concat(frames, ignore_index=True), problems


def own_names(home: Path) -> set[str]:
    """Names that our own runs have: benchmarks of configs/eval, labels of the experiments."""
    files = (home / "configs" / "experiment").rglob("*.yaml")
    labels = [re.search(r"^label: *(.*?) *(?:#.*)?$", file.read_text(), re.M) for file in files]
    benchmarks = {file.stem for file in (ROOT / "configs" / "eval").glob("*.yaml")}
    return benchmarks | {found[1].strip("\"'") for found in labels if found}


def summary(rows: dict[str, pd.DataFrame], runs: pd.DataFrame) -> pd.DataFrame:
    """One row a cell and scope: printed numbers as printed, reruns as mean over seeds at the last
    step.

    scope, table, model, method, benchmark, metric, k, value, unit, stderr (over seeds), n_seeds,
    run_ids, state.
    """
    frames = []
    for scope, frame in rows.items():
        if frame.empty:
            continue
        if scope in RERUNS:
            last = frame.groupby("run_id")["step"].transform("max")
            grouped = frame[frame["step"].fillna(-1) == last.fillna(-1)].groupby(
                KEY, dropna=False, sort=False
            )
            frame = grouped.agg(
                value=("value", "mean"),
                stderr=("value", "sem"),
                n_seeds=("value", "size"),
                run_ids=("run_id", lambda x: ";".join(dict.fromkeys(x.astype(str)))),
            ).reset_index()
            frame["state"] = [provenance.of_runs(ids, runs) for ids in frame["run_ids"]]
        frames.append(frame.assign(scope=scope))
    columns = ["scope", *KEY[:-1], "value", "unit", "stderr", "n_seeds", "run_ids", "state"]
    table = pd.concat(frames, ignore_index=True).reindex(columns=columns)
    text = table[["run_ids", "state"]].astype(object).fillna("")
    return table.assign(run_ids=text["run_ids"], state=text["state"])


def _counts(run: Path) -> tuple[pd.DataFrame, list[str]]:
    """Every evaluation's counts of one run, with the columns that name it; what was left out."""
    first = read_csv(run / "metrics.csv").iloc[0]
    frames, problems = [], []
    for path in sorted((run / "eval").glob("step-?????-counts.csv")):
        frame, found = read_counts(path)
        problems += found
        if len(frame):
            frame, found = check_counts(frame, str(path))
            problems += found
            frames.append(frame.assign(step=int(path.name[5:10])))
    if not frames:
        return pd.DataFrame(), problems
    counts = pd.concat(frames)
    for column in ("table", "model", "method", "seed"):
        counts[column] = first[column]
    return counts.reindex(columns=[*COUNTED, "problem_id", "n", "c", "distinct"]), problems
