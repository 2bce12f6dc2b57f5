"""What a paper's comparison consists of: papers/<paper>/compare.yaml, whose keys are the fields of
`Spec`. Functions are named there by their dotted paths."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Literal

import pandas as pd

from common.comparison.published import Joined, SameRun, joined, same_runs
from common.config.files import ROOT, read
from common.config.resolve import named
from common.errors import require

# the study's measures that are shown: title -> (benchmark, metric)
MEASURES = {
    f"{benchmark} {metric}": (benchmark, metric)
    for benchmark in ("natural", "rare")
    for metric in ("pass@1", "pass@64", "pass@256", "distinct_correct", "token_entropy")
}
FUNCTIONS = {"own_rows", "logged_rows", "exact"}
Columns = dict[str, tuple[str, str]]  # title -> (benchmark, metric)
Where = dict[str, object]  # column of a printed table -> value, or a list of values: any of them


@dataclass(frozen=True)
class Spec:
    """The content of a paper's comparison: what is compared with what, and under which names."""

    paper: str
    title: str
    published: list[tuple[str, str, Columns]]  # printed table, its caption, its shown columns
    # further result rows, from theory and simulation, next to the gathered ones
    own_rows: Callable[[Path], list[pd.DataFrame]]
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
    exact: Callable[[Path], pd.DataFrame] = lambda root: pd.DataFrame()  # printed closed forms
    # dotted path of: root, cells and cluster runs -> the paper's figures (cluster_figures.Figure)
    figures: str = ""
    # remarks on printed cells
    footnotes: dict[str, list[Where]] = field(default_factory=dict)  # inconsistency -> its cells
    not_reproducible: list[tuple[Where, str]] = field(default_factory=list)
    # benchmarks of rows whose printed cells are not in our text of the paper (missing.csv)
    unprinted: tuple[str, ...] = ()
    problems: dict[str, int] = field(default_factory=dict)  # printed benchmark -> its problems
    # printed benchmark -> the number of problems that the paper drew for it without naming them;
    # they are not ours
    own_problems: dict[str, int] = field(default_factory=dict)


@cache
def spec_of(paper: str) -> Spec:
    """Return the content of papers/<paper>/compare.yaml. Its key `evaluated` names, for printed
    benchmarks, the file of configs/eval that evaluates them and says how many problems they have.
    Raises UserError if it cannot be read, or if a function that it names cannot be imported."""
    path = ROOT / "papers" / paper / "compare.yaml"
    given = read(path)
    known = {one.name for one in fields(Spec)} | {"evaluated"}
    for name in sorted(given.keys() - known):
        require(False, f"{path}: {name}", given[name], f"is no key; use {', '.join(sorted(known))}")
    for name in ("title", "published", "own_rows"):
        require(name in given, f"{path}: {name}", None, "give it")
    sizes = {
        name: read(ROOT / "configs" / "eval" / f"{file}.yaml")["prompts"]["kept"]
        for name, file in given.pop("evaluated", {}).items()
    }
    how = {(table, metric): (how, of) for table, metric, how, of in given.get("joined", [])}
    given |= {x: named({"_target_": given[x]}, f"{paper}: {x}") for x in FUNCTIONS & set(given)}
    given |= {
        "published": [
            (x["table"], x["caption"], {key: tuple(y) for key, y in x["columns"].items()})
            for x in given["published"]
        ],
        "gains": list(map(tuple, given.get("gains", []))),
        "joined": joined(paper, how),
        "problems": sizes | given.get("problems", {}),
        "not_reproducible": [(x["where"], x["why"]) for x in given.get("not_reproducible", [])],
    }
    return Spec(paper=paper, same_runs=same_runs(paper), **given)


def matches(frame: pd.DataFrame, where: Where) -> pd.Series:
    """Return which rows have all the values of `where`."""
    match = pd.Series(True, frame.index)
    for column, value in where.items():
        match &= frame[column].isin(value if isinstance(value, list) else [value])
    return match
