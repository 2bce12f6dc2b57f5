"""What a paper's comparison consists of: papers/<paper>/compare.yaml, whose keys are the fields of
`Spec` but `paper`. Functions are named there by their dotted paths."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BeforeValidator, Field

from common.config.files import ROOT, read
from common.config.resolve import import_target
from common.config.strict import strict
from common.errors import UserError, require

# the study's measures that are shown: title -> (benchmark, metric)
MEASURES = {
    f"{benchmark} {metric}": (benchmark, metric)
    for benchmark in ("natural", "rare")
    for metric in ("pass@1", "pass@64", "pass@256", "distinct_correct", "token_entropy")
}
Columns = dict[str, tuple[str, str]]  # title -> (benchmark, metric)
Where = dict[str, Any]  # column of a printed table -> value, or a list of values: any of them
Function = Annotated[  # a dotted path in compare.yaml
    Callable, BeforeValidator(lambda path, key: import_target(path, key.field_name))
]


@dataclass(frozen=True)
class Refused:
    """Printed cells that no rerun can give."""

    where: Where
    why: str


@dataclass(frozen=True)
class Curve:
    """A panel with curves along training: `column` of each step's log (metrics.jsonl) or, without
    it, the result rows of `metric`, which may be a pattern ("srank, step *"), on `benchmark`."""

    title: str
    column: str = ""
    benchmark: str = ""
    metric: str = ""
    # below 1, a moving average of the logged column, in which each step's number has this weight
    ema: Annotated[float, Field(gt=0, le=1)] = 1.0

    def __post_init__(self):
        logged = bool(self.column)
        one = f"{self.title}: column"
        require(logged != bool(self.metric), one, self.column, "give either a column or a metric")
        remedy = "leave it out; only a logged column is averaged"
        require(logged or self.ema == 1, f"{self.title}: ema", self.ema, remedy)


@dataclass(frozen=True)
class Cells:
    """A panel with printed cells of `benchmark`: of `metric` by method, or pass@k by k."""

    benchmark: str
    metric: str = ""


@dataclass(frozen=True)
class Plot:
    """A figure of one model's methods, with a panel for each of `curves` or of `cells`."""

    caption: str
    model: str
    methods: list[str]
    curves: list[Curve] = field(default_factory=list)
    cells: list[Cells] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)  # only rows and cells of these; none: of all
    # the method name of the start model: its rows begin each curve of evaluations at step 0
    start: str = ""
    colors: dict[str, str] = field(default_factory=dict)  # of methods, in place of the palette's

    def __post_init__(self):
        figure, _, _ = self.caption.partition(":")
        one = bool(self.curves) != bool(self.cells)
        require(one, f"{figure}: curves", self.curves, "give panels of either curves or cells")
        named = bool(self.tables) or not self.cells
        require(named, f"{figure}: tables", self.tables, "name the printed tables of the cells")


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What is compared with what, and under which names."""

    paper: str
    title: str
    # further result rows, from theory and simulation: of the root
    own_rows: Function
    # result rows from the logs of the cluster runs that rows name: of the root and these rows
    logged_rows: Function = lambda root, rows: []
    exact: Function = lambda root: pd.DataFrame()  # printed closed forms: of the root
    # (method, baseline), as printed, whose gain is compared wherever a table has both of a model
    gains: list[tuple[str, str]] = field(default_factory=list)
    # how a cluster run's rows become printed cells
    averages: dict[str, list[str]] = field(default_factory=dict)  # printed mean -> its benchmarks
    # printed cells made of several runs: table, printed metric, how, metric of the runs
    joined: list[tuple[str, str, Literal["min", "max", "mean"], str]] = field(default_factory=list)
    metrics: dict[str, str] = field(default_factory=dict)  # our metric -> as printed
    # printed table -> the training step that its cells are read at. "peak of average": the best
    # step of its run by the mean over the benchmarks of `averages`; a table that is left out is
    # read at the last step
    steps: dict[str, int | Literal["peak of average"]] = field(default_factory=dict)
    # the paper's figures of cluster rows: name -> what is drawn
    figures: dict[str, Plot] = field(default_factory=dict)
    # the others: name -> function (root, cells with step and n_samples, Gathered cluster runs) ->
    # cluster_figures.Drawn
    own_figures: dict[str, str] = field(default_factory=dict)
    # writes a page from the samples of cluster runs: of the root and their rows
    own_page: Function = lambda root, rows: None
    # remarks on printed cells
    footnotes: dict[str, list[Where]] = field(default_factory=dict)  # inconsistency -> its cells
    not_reproducible: list[Refused] = field(default_factory=list)
    # benchmarks of rows whose printed cells are not in our text of the paper (missing.csv)
    unprinted: list[str] = field(default_factory=list)
    # printed benchmark -> the file of configs/eval that evaluates it and says its problems
    evaluated: dict[str, str] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)  # printed benchmark -> its problems
    # printed benchmark -> the number of unnamed problems that the paper drew for it; ours differ
    own_problems: dict[str, int] = field(default_factory=dict)


@cache
def spec_of(paper: str) -> Spec:
    """Return papers/<paper>/compare.yaml, with the sizes of `evaluated` among its `problems`.
    Raises UserError for a wrong key, value or function."""
    path = ROOT / "papers" / paper / "compare.yaml"
    given = read(path) | {"paper": paper}
    try:
        stated = strict(Spec, given)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    sizes = {
        name: read(ROOT / "configs" / "eval" / f"{file}.yaml")["prompts"]["kept"]
        for name, file in stated.evaluated.items()
    }
    return replace(stated, problems=sizes | stated.problems)


def matches(frame: pd.DataFrame, where: Where) -> pd.Series:
    match = pd.Series(True, frame.index)
    for column, value in where.items():
        match &= frame[column].isin(value if isinstance(value, list) else [value])
    return match
