"""What a paper's comparison consists of, as data: papers/<p>/compare.py has one SPEC each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from common.comparison.gather import Gathered
from common.config.files import ROOT, read
from common.config.resolve import named

Columns = dict[str, tuple[str, str]]  # title -> (benchmark, metric)
Where = dict[str, object]  # column of a printed table -> value, or a list of values: any of them


@dataclass(frozen=True)
class SameRun:
    """A printed row that another printed row's runs stand for: `table`, `method` is the same run as
    `of_table`, `of_method`. With `steps`, its benchmarks read "NAME, step N"; with `benchmark`, the
    run's one benchmark is printed under that name."""

    table: str
    method: str
    of_table: str
    of_method: str
    steps: tuple[int, ...] = ()
    benchmark: str = ""


@dataclass(frozen=True)
class Joined:
    """A printed cell of several runs: the least, the largest or the mean of their `of_metric`, once
    all are there. `of`: table and method of each."""

    table: str
    method: str
    metric: str
    how: Literal["min", "max", "mean"]
    of_metric: str
    of: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Spec:
    """What a paper's comparison consists of."""

    paper: str
    title: str
    published: list[tuple[str, str, Columns]]  # printed table, its caption, what is shown of it
    laptop: Columns
    pairs: list[tuple[str, str]]  # methods that are also compared at matched pass@1
    # what theory, simulation and the laptop's runs show beside their result rows, as such rows
    own_rows: Callable[[Path, Gathered], list[pd.DataFrame]]
    baseline: str = "GRPO"  # the method of laptop runs that the others are measured from
    # makes the paper's own tables of laptop runs, where their folders are: some read all samples
    measure: Callable[[Path, Gathered], None] = lambda root, laptop: None
    # of the logs of cluster runs, which these rows name
    logged_rows: Callable[[Path, pd.DataFrame], list[pd.DataFrame]] = lambda root, rows: []
    # method and baseline, as printed, whose gain is compared wherever a table prints both for a
    # model; a method that the paper sets against several has as many
    gains: list[tuple[str, str]] = field(default_factory=list)
    # how a cluster run's rows become printed cells
    same_runs: list[SameRun] = field(default_factory=list)
    averages: dict[str, list[str]] = field(default_factory=dict)  # printed mean -> its benchmarks
    joined: list[Joined] = field(default_factory=list)
    metrics: dict[str, str] = field(default_factory=dict)  # our metric -> as printed
    # printed table -> the training step of its cells, each cell's "peak" over the steps, or the
    # "peak of average", its run's best step by the mean of `averages`; left out: the last one
    steps: dict[str, int | Literal["last", "peak", "peak of average"]] = field(default_factory=dict)
    stacked: tuple[str, ...] = ()  # printed tables with a row for each benchmark of a method
    exact: Callable[[Path], pd.DataFrame] = lambda root: pd.DataFrame()  # printed closed forms
    # root, cells and cluster runs -> the paper's figures (cluster_figures.Figure)
    figures: Callable[[Path, pd.DataFrame, Gathered], list] | None = None
    # remarks on printed cells
    footnotes: dict[str, list[Where]] = field(default_factory=dict)  # inconsistency -> its cells
    not_reproducible: list[tuple[Where, str]] = field(default_factory=list)
    # benchmarks of rows whose printed cells are not in our text of the paper (missing.csv)
    unprinted: tuple[str, ...] = ()
    problems: dict[str, int] = field(default_factory=dict)  # printed benchmark -> its problems
    # printed benchmark -> how many problems the paper drew for it without naming them: not ours
    own_problems: dict[str, int] = field(default_factory=dict)


def spec_of(paper: str) -> Spec:
    """The SPEC of papers/<paper>/compare.py. Raises UserError where it cannot be imported."""
    return named({"_target_": f"papers.{paper}.compare.SPEC"}, "comparison")


def problems(files: dict[str, str]) -> dict[str, int]:
    """Printed benchmark -> its problems, by the file of configs/eval that evaluates it."""
    folder = ROOT / "configs" / "eval"
    return {name: read(folder / f"{file}.yaml")["prompts"]["kept"] for name, file in files.items()}


def matches(frame: pd.DataFrame, where: Where) -> pd.Series:
    """Which rows have all the values of `where`."""
    match = pd.Series(True, frame.index)
    for column, value in where.items():
        match &= frame[column].isin(value if isinstance(value, list) else [value])
    return match
