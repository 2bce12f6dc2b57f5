"""What a paper's comparison consists of, as data. Each papers/<p>/compare.py has one SPEC."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from common.comparison.gather import Gathered
from common.config.files import ROOT, read
from common.config.resolve import named

Columns = dict[str, tuple[str, str]]  # title -> (benchmark, metric)
How = Literal["min", "max", "mean"]
Where = dict[str, object]  # column of a printed table -> value, or a list of values: any of them


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


@dataclass(frozen=True)
class Spec:
    """The content of a paper's comparison: what is compared with what, and under which names."""

    paper: str
    title: str
    published: list[tuple[str, str, Columns]]  # printed table, its caption, its shown columns
    laptop: Columns
    pairs: list[tuple[str, str]]  # methods that are also compared at matched pass@1
    # further result rows, from theory, simulation and the laptop runs, beside the gathered ones
    own_rows: Callable[[Path, Gathered], list[pd.DataFrame]]
    baseline: str = "GRPO"  # the laptop method that the others are compared with
    # writes the paper's own tables of laptop runs; needs their folders, as some read all samples
    measure: Callable[[Path, Gathered], None] = lambda root, laptop: None
    # result rows from the logs of the cluster runs that the given rows name
    logged_rows: Callable[[Path, pd.DataFrame], list[pd.DataFrame]] = lambda root, rows: []
    # (method, baseline), as printed, whose gain is compared wherever a table prints both for a
    # model; a method that the paper compares with several baselines has as many entries
    gains: list[tuple[str, str]] = field(default_factory=list)
    # how a cluster run's rows become printed cells
    same_runs: list[SameRun] = field(default_factory=list)
    averages: dict[str, list[str]] = field(default_factory=dict)  # printed mean -> its benchmarks
    joined: list[Joined] = field(default_factory=list)
    metrics: dict[str, str] = field(default_factory=dict)  # our metric -> as printed
    # printed table -> the training step that its cells are read at. "peak": the best step of each
    # cell; "peak of average": the best step of its run by the mean over the benchmarks of
    # `averages`; a table that is left out is read at the last step
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
    # printed benchmark -> the number of problems that the paper drew for it without naming them;
    # they are not ours
    own_problems: dict[str, int] = field(default_factory=dict)


def spec_of(paper: str) -> Spec:
    """Return the SPEC of papers/<paper>/compare.py. Raises UserError if it cannot be imported."""
    return named({"_target_": f"papers.{paper}.compare.SPEC"}, "comparison")


def problems(files: dict[str, str]) -> dict[str, int]:
    """Return printed benchmark -> number of its problems. `files`: printed benchmark -> the file of
    configs/eval that evaluates it."""
    folder = ROOT / "configs" / "eval"
    return {name: read(folder / f"{file}.yaml")["prompts"]["kept"] for name, file in files.items()}


def matches(frame: pd.DataFrame, where: Where) -> pd.Series:
    """Return which rows have all the values of `where`."""
    match = pd.Series(True, frame.index)
    for column, value in where.items():
        match &= frame[column].isin(value if isinstance(value, list) else [value])
    return match
