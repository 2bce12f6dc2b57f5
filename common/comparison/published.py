"""The printed cells of a paper: papers/<paper>/published/table*.csv.

A cell's column `run` names the row (named experiment configuration) whose run is its rerun, or the
rows whose runs make it together, separated by ";". It is empty where no row does."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pandas as pd

from common.config.files import ROOT
from common.config.rows import rows, tables
from common.results.checks import check_rows

How = Literal["min", "max", "mean"]


@dataclass(frozen=True)
class SameRun:
    """A printed row that reuses the runs of another printed row: (`table`, `method`) is the same
    run as (`of_table`, `of_method`). With `steps`, its benchmarks are named "NAME, step N". With
    `benchmark`, the run's one benchmark is printed under that name."""

    table: str
    method: str
    of_table: str
    of_method: str
    steps: tuple[int, ...] = ()
    benchmark: str = ""


@dataclass(frozen=True)
class Joined:
    """A printed cell made from several runs: the least, the largest or the mean of their
    `of_metric`, once all runs are there. `of`: table and method of each run."""

    table: str
    method: str
    metric: str
    how: How
    of_metric: str
    of: tuple[tuple[str, str], ...]


def published(folder: Path) -> pd.DataFrame:
    """Return all printed cells of a paper: the rows of table*.csv in `folder`, and those that
    reprints.csv takes from another table. The column `printed` is the value as it is written."""
    return published_checked(folder)[0]


@cache
def published_checked(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return (the printed cells, messages on what was left out of them)."""
    frames, problems = [], []
    for path in sorted(folder.glob("table*.csv")):
        as_text = pd.read_csv(path, usecols=["value"], dtype=str)["value"]
        frame, more = check_rows(pd.read_csv(path).assign(printed=as_text), str(path))
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
    """Return the printed cells that name a run, or several."""
    printed = published(ROOT / "papers" / paper / "published")
    return printed.dropna(subset=["run"]) if "run" in printed else printed.iloc[:0].assign(run="")


def same_runs(paper: str) -> list[SameRun]:
    """Return the printed rows that name a run of another table or of another label."""
    printed = naming_runs(paper)
    alone, found = printed[~printed["run"].str.contains(";")], {}
    for (table, method, _), cells in alone.groupby(["table", "method", "model"], sort=False):
        for run, its in cells.groupby("run", sort=False):
            benchmarks = its["benchmark"].astype(str)
            steps = benchmarks.str.extract(r", step (\d+)$")[0].dropna().astype(int)
            several = cells["run"].nunique() > 1  # one for each benchmark
            of = (tables(paper)[run], rows(paper)[run]["label"])
            if (table, method) != of:
                one = SameRun(
                    *(table, method, *of),
                    steps=tuple(dict.fromkeys(map(int, steps))),
                    benchmark=benchmarks.iloc[0] if several else "",
                )
                found[one] = None
    return list(found)


def joined(paper: str, how: dict[tuple[str, str], tuple[How, str]]) -> list[Joined]:
    """Return the printed cells that name several runs. `how`: (table, metric) -> how the runs'
    values are joined, and the metric of these values."""
    printed = naming_runs(paper)
    found = []
    for cell in printed[printed["run"].str.contains(";")].to_dict("records"):
        of = tuple(
            (tables(paper)[run], rows(paper)[run]["label"]) for run in cell["run"].split(";")
        )
        table, metric = cell["table"], cell["metric"]
        by, of_metric = how[table, metric]
        found.append(Joined(table, cell["method"], metric, by, of_metric, of))
    return found


def labels(home: Path) -> set[str]:
    """Return the methods of the rows, as tables show them."""
    return {row["label"] for row in rows(home.name).values()}
