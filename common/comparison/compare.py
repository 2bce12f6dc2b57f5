"""Compare a paper's published results with the rerun: claims, printed cells, and their sources.

    rlvr compare paper=NAME [results_dir=results]

Prints the verdict on every claim and the printed cells that have a rerun, and writes claims, gaps,
cells and comparison (.csv, .md) to <results_dir>/NAME/. results_dir=results/reference has the
committed results of the full grid.

Only result files are read, so this takes seconds. What cannot be read is named by file and line as
left out; everything else is still compared.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import pandas as pd
from rich.console import Console

from common.claims import judge
from common.claims.file import SCOPES, Claim, load
from common.claims.kinds import kinds
from common.claims.select import Counts, indexed
from common.comparison import cells
from common.comparison.cells import with_best, with_sampling
from common.comparison.confirmed import instead, of_paper
from common.comparison.frontier import AT_EQUAL, BASE, GRPO, at_equal_accuracy
from common.comparison.gains import gains
from common.comparison.gather import (
    CLUSTER,
    LAPTOP,
    REFERENCE,
    RERUNS,
    Gathered,
    Gathering,
    gather,
    gathered,
    joined,
    of_study,
)
from common.comparison.published import labels, naming_runs, other_names, published_checked
from common.comparison.spec import Spec, spec_of
from common.config.files import ROOT, STUDY, known_paper
from common.config.files import names as files_of
from common.config.words import options
from common.errors import require
from common.results import provenance
from common.results.checks import check_names
from common.results.columns import CELL, EVALUATION
from common.results.files import sweep, write, write_csv
from common.results.tables import together

LEFT_OUT = 5  # reasons that the terminal shows; all are in comparison.md
SPREADS = {"cluster_at_half": 0.5, "cluster_at_twice": 2.0}
WIDTH = 120  # characters of a line where the output is no terminal
KEY = [*CELL, "k", "unit"]


@dataclass(frozen=True)
class Comparison:
    """The comparison of one paper: tables for readers, pages and tests."""

    spec: Spec
    claims: list[Claim]
    verdicts: pd.DataFrame  # those of claims.judge, with <scope>_state
    gaps: pd.DataFrame  # the comparisons behind the verdicts, claims.GAPS
    cells: pd.DataFrame  # every printed cell, cells.COLUMNS
    summary: pd.DataFrame  # means over seeds of both rerun scopes
    notes: pd.DataFrame  # the paper's inconsistencies
    runs: pd.DataFrame  # provenance.COLUMNS
    left_out: list[str]
    cluster: Gathered  # cluster runs, without rows that two runs give for one cell
    found: dict[str, Gathering]  # what was gathered of the paper's runs and of the study's
    gains: pd.DataFrame  # the gain of every printed pair of method and baseline, gains.COLUMNS


def main(words: list[str]) -> None:
    given = options(words, {"paper": "", "results_dir": "results"})
    spec, root = spec_of(known_paper(given["paper"])), Path(given["results_dir"])
    require(root.is_dir(), "results_dir", root, "no such folder; give one that holds results")
    compare(spec, root)


def compare(spec: Spec, root: Path) -> None:
    """Print the comparison and write it to <root>/<paper>/: claims, gaps, cells (printed cells with
    a rerun), comparison (all reruns) and gains (.csv), comparison.md, figures."""
    from common.comparison import cluster_figures
    from common.comparison import text as compare_text

    result = assess(spec, root)
    folder = root / spec.paper
    page = folder / "comparison.md"
    for reason in result.left_out[:LEFT_OUT]:
        print(f"left out: {reason}", file=sys.stderr)
    if len(result.left_out) > LEFT_OUT:
        print(f"left out: {len(result.left_out)} in all, see the end of {page}", file=sys.stderr)
    console = Console(markup=False, width=None if sys.stdout.isatty() else WIDTH)
    console.print(compare_text.headlines(result, result.claims, REFERENCE / spec.paper))
    print(compare_text.terminal(result))  # before it writes: the folder may be read-only
    sweep(folder)
    for paper, runs in result.found.items():
        runs.write(root, paper)
    tables = {
        "claims": result.verdicts,
        "gaps": result.gaps,
        "cells": result.cells[result.cells["rerun"].notna()],
        "comparison": result.summary,
    }
    tables |= {"gains": result.gains} if result.gains["rerun"].notna().any() else {}
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    made = cluster_figures.draw(spec, root, result.cells, result.cluster)
    spec.own_page(root, result.cluster.rows)
    write(page, compare_text.markdown(result) + cluster_figures.markdown(made))
    print(f"all of it: {page} and the tables (.csv) beside it")
    if (folder / "figures").exists():
        print(f"figures:   {folder / 'figures'}")
    print(f"next:      rlvr report results_dir={quote(str(root))}")


def assess(spec: Spec, root: Path) -> Comparison:
    home = ROOT / "papers" / spec.paper
    stated = load(home / "claims.yaml")
    printed, left_out = published_checked(home / "published")
    found = {paper: gather(root, paper) for paper in (spec.paper, STUDY)}
    read = {
        LAPTOP: _on_a_laptop(spec, root, stated, found),
        CLUSTER: _on_a_cluster(spec, root, printed, found[spec.paper]),
    }
    left_out = [*found[spec.paper].left_out, *left_out]
    left_out += [message for one in read.values() for message in one.left_out]
    runs = together([one.results.runs for one in read.values()])
    rows = {scope: one.rows for scope, one in read.items() if len(one.rows)}
    counts = {scope: one.counts for scope, one in read.items()}
    verdicts, gaps, more = judge.judge(
        stated, {"published": printed, **rows}, counts, spec.averages
    )
    if CLUSTER in rows:  # the verdicts if the assumed spread over seeds is half as large, or twice
        again = stated, {CLUSTER: rows[CLUSTER]}, counts, spec.averages
        for name, spread in SPREADS.items():
            other = judge.judge(*again, spread=spread)[0].set_index("id")[CLUSTER]
            verdicts[name] = verdicts["id"].map(other)
    for new in of_paper(root, stated):
        verdicts, gaps = instead(verdicts, gaps, new)
        added = new.runs[~new.runs["run_id"].isin(runs["run_id"])]
        runs, more = together([runs, added]), [*more, *new.left_out]
    states = provenance.states_of(runs)
    for scope in SCOPES:
        numbers = "computed" if scope in RERUNS else ""  # a number without a run
        verdicts[f"{scope}_state"] = [
            provenance.of_runs(ids, states) or ("" if verdict in judge.WITHOUT else numbers)
            for ids, verdict in verdicts[[f"{scope}_runs", scope]].itertuples(index=False)
        ]
    shown = {scope: one.shown for scope, one in read.items()}
    kind = kinds(stated, gaps, set(shown[LAPTOP]["table"]))
    listed = home / "published" / "inconsistencies.csv"  # a paper may have none
    return Comparison(
        spec=spec,
        claims=stated,
        verdicts=verdicts.assign(kind=verdicts["id"].map(kind)),
        gaps=gaps,
        gains=gains(spec, printed, shown[CLUSTER], counts[CLUSTER]),
        cells=cells.compare_cells(spec, printed, read[CLUSTER].rows, spec.exact(root), runs),
        summary=summary(shown, runs),
        notes=pd.read_csv(listed, keep_default_na=False) if listed.exists() else pd.DataFrame(),
        runs=runs,
        left_out=list(dict.fromkeys([*left_out, *more])),
        cluster=read[CLUSTER].results,
        found=found,
    )


@dataclass(frozen=True)
class Read:
    """What was read of one scope."""

    results: Gathered  # its runs', without rows that two sources or two runs give for one cell
    shown: pd.DataFrame  # the rows that the comparison shows
    rows: pd.DataFrame  # the rows that claims are about
    counts: pd.DataFrame | Counts  # behind these
    left_out: list[str]


def _on_a_laptop(spec: Spec, root: Path, stated: list[Claim], found: dict[str, Gathering]) -> Read:
    """Return the paper's laptop runs and the study's, with theory and equal accuracy."""
    own, left_out = gathered(root, spec.paper, LAPTOP, found[spec.paper])
    study, more = of_study(root, methods_of(stated), found[STUDY])
    whole = joined(own, study)
    rows, conflicts = cells.one_source_each(whole.rows, whole.runs)
    named = [str(one.get("table", "")) for one in _selectors(stated)]
    equal, areas = at_equal_accuracy(study.counts, named)
    counts = indexed(whole.counts)
    return Read(
        results=replace(whole, rows=rows),
        shown=rows,
        rows=together([rows, *spec.own_rows(root), equal]),
        counts=replace(counts, areas=areas),
        left_out=[*left_out, *more, *conflicts],
    )


def _on_a_cluster(spec: Spec, root: Path, printed: pd.DataFrame, found: Gathering) -> Read:
    """Return the results of the paper's cluster runs and of their logs, as printed cells."""
    whole, left_out = gathered(root, spec.paper, CLUSTER, found)
    named = naming_runs(spec.paper)
    names = other_names(named)
    place = str(root / spec.paper / CLUSTER / "metrics.csv.gz")
    shared = names.groupby("of_table")["table"].agg(set).to_dict()
    home = ROOT / "papers" / spec.paper
    ours = labels(home).union(files_of("eval"), spec.unprinted, *spec.averages.values())
    left_out += check_names(whole.rows, printed, place, ours, shared)
    rows, conflicts = cells.one_source_each(whole.rows, whole.runs)
    rows, twice = cells.one_run_each(spec, rows, names)
    behind = indexed(whole.counts)
    rows = with_sampling(with_best(spec, rows, behind), behind)
    shown, counts = cells.as_printed(spec, rows, named), whole.counts
    parts = [rows]
    if len(shown):  # other steps of a printed cell do not count
        taken = pd.MultiIndex.from_frame(printed[["table", "benchmark"]])
        rest = rows[~pd.MultiIndex.from_frame(rows[["table", "benchmark"]]).isin(taken)]
        parts = [pd.concat([shown, rest]).drop_duplicates([*KEY, "seed", "step"])]
        parts += spec.logged_rows(root, rows)
    if len(counts):
        counts = cells.under_printed_names(counts, names)
        read = set(printed["benchmark"]).union(*spec.averages.values())
        counts = counts[counts["benchmark"].isin(read)]  # not those of curves
        counts = counts.merge(shown[EVALUATION].drop_duplicates(), on=EVALUATION)
    return Read(
        results=replace(whole, rows=rows),
        shown=shown,
        rows=together(parts),
        counts=counts,
        left_out=[*left_out, *conflicts, *twice],
    )


def _selectors(stated: list[Claim]) -> list[dict]:
    return [one for claim in stated if claim.laptop for one in claim.laptop.selectors]


def methods_of(stated: list[Claim]) -> set[str]:
    """Return the methods that the claims on a laptop name, with GRPO and the base model."""
    named = {GRPO, BASE}
    for one in _selectors(stated):
        found = AT_EQUAL.fullmatch(str(one.get("table", "")))
        named.update(found.groups() if found else [str(one.get("method"))])
    return named


def summary(rows: dict[str, pd.DataFrame], runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell and scope: the mean over seeds with its standard error, at the last
    step or, on a cluster, at the step of the cell."""
    columns = ["scope", *KEY[:-1], "value", "unit", "stderr", "n_seeds", "run_ids", "state"]
    frames, states = [pd.DataFrame(columns=columns)], provenance.states_of(runs)
    for scope, frame in rows.items():
        if frame.empty:
            continue
        if scope == LAPTOP:
            last = frame.groupby("run_id")["step"].transform("max")
            frame = frame[frame["step"].fillna(-1) == last.fillna(-1)]
        means = frame.groupby(KEY, dropna=False, sort=False).agg(
            value=("value", "mean"),
            stderr=("value", "sem"),
            n_seeds=("value", "size"),
            run_ids=("run_id", lambda x: ";".join(dict.fromkeys(x.astype(str)))),
        )
        state = [provenance.of_runs(ids, states) for ids in means["run_ids"]]
        frames.append(means.reset_index().assign(state=state, scope=scope))
    return together(frames)[columns]
