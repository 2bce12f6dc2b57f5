"""The printed cells of a paper: papers/<paper>/published/table*.csv. A cell's column `run` names
the row (named experiment configuration) whose run is its rerun, or rows, separated by ";"."""

import re
from functools import cache
from pathlib import Path

import pandas as pd

from common.config.files import ROOT
from common.config.rows import rows, tables
from common.results.checks import check_rows

ROW = ["table", "model", "method"]  # name a printed row
OF_RUN = ["of_table", "of_method"]  # the table and method that the results of its run have


def published(folder: Path) -> pd.DataFrame:
    """Return all printed cells of a paper; the column `printed` is the value as it is written."""
    return published_checked(folder)[0]


@cache
def published_checked(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return (the printed cells, messages on what was left out of them)."""
    frames, problems = [], []
    for path in sorted(folder.glob("table*.csv")):
        frame = pd.read_csv(path, dtype={"value": str})
        number = pd.to_numeric(frame["value"], errors="coerce")
        value = number.where(number.notna(), frame["value"])  # check_rows says what is no number
        frame, more = check_rows(frame.assign(printed=frame["value"], value=value), str(path))
        frames.append(frame)
        problems += more
    whole = pd.concat(frames, ignore_index=True)
    listed = folder / "reprints.csv"  # table, of_table, model: these cells are typed in of_table
    for one in pd.read_csv(listed).itertuples() if listed.exists() else ():
        same = whole[(whole["table"] == one.of_table) & (whole["model"] == one.model)]
        whole = pd.concat([whole, same.assign(table=one.table)], ignore_index=True)
    return whole, problems


def order(table: str) -> tuple[list[int], str]:
    """Return the sort key of a table: by number, the second version of a table after the first."""
    return [int(number) for number in re.findall(r"\d+", table)], table


def reruns_of(paper: str, cells: pd.DataFrame) -> set[tuple[str, str]]:
    """Return (table, name) of the runs that printed cells name."""
    runs = {run for runs in cells["run"].dropna() for run in runs.split(";")}
    return {(tables(paper)[run], run.rpartition("/")[2]) for run in runs}


@cache
def naming_runs(paper: str) -> pd.DataFrame:
    """Return the printed cells once for each run that they name, with OF_RUN and `several`."""
    printed = published(ROOT / "papers" / paper / "published")
    if "run" not in printed:  # a paper that was just begun
        printed = printed.assign(run=None)
    printed = printed.dropna(subset=["run"])
    runs = printed["run"].astype(str).str.split(";")
    each = printed.assign(run=runs, several=runs.str.len() > 1).explode("run")
    of_method = [rows(paper)[run]["label"] for run in each["run"]]
    return each.assign(of_table=each["run"].map(tables(paper)), of_method=of_method)


def other_names(named: pd.DataFrame) -> pd.DataFrame:
    """Return the printed rows (`naming_runs`) whose run has its results under another table or
    method: ROW, OF_RUN, `suffix`, `step` and `as_benchmark`. Benchmarks named "NAME, step N" have
    the results of `step` N, with this `suffix`. A row with another run for each benchmark has each
    run's one benchmark as `as_benchmark`. Other rows lack these values."""
    cells = named[~named["several"]]
    at = cells["benchmark"].astype(str).str.extract(r"(, step (\d+))$")
    many = cells.groupby(ROW, sort=False)["run"].transform("nunique") > 1
    cells = cells.assign(
        suffix=at[0].fillna(""),
        step=at[1].astype(float),
        as_benchmark=cells["benchmark"].where(many),
    )
    own = (cells["of_table"] == cells["table"]) & (cells["of_method"] == cells["method"])
    return cells.loc[~own, [*ROW, *OF_RUN, "suffix", "step", "as_benchmark"]].drop_duplicates()


def labels(home: Path) -> set[str]:
    """Return the methods of the rows, as tables show them."""
    return {row["label"] for row in rows(home.name).values()}
