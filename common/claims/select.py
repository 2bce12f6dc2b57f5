"""Selectors: the result rows that a claim reads, as values per seed and, with counts, per problem.
common/claims/judge.py says how they are written; `seed` chooses seeds."""

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import prod

import numpy as np
import pandas as pd

from common.errors import UserError
from common.metrics.paired import seed_means
from common.metrics.passk import estimate, estimator
from common.results.columns import COLUMNS, EVALUATION

SELECTABLE = [
    name for name in COLUMNS if name not in ("value", "stderr", "n_problems", "n_samples")
]
WORDS = ["table", "model", "method", "benchmark", "metric", "unit"]
OF_STEP = r", step \d+$"  # ends the printed name of a benchmark at one of several steps
REFUSED = "refused"  # in the metric name of a row that has no value; the name says why
PER_PROBLEM = [*EVALUATION, "problem_id", "n", "c", "distinct"]  # the columns of gathered counts


class Missing(Exception):
    """A selector found no rows; the message says which are missing."""


class Refused(Exception):
    """A selector found a reading that its table refuses; the message says why."""


@dataclass(frozen=True)
class Found:
    """The values that a selector found: one per seed (S,) and, with counts, per seed and problem
    (S, P). `counts` (S, P) are the correct samples of `n`, if all is one pass@k of one n."""

    name: str
    seeds: tuple | None  # None: one number without a seed
    values: np.ndarray
    tables: tuple = ()
    benchmarks: tuple = ()
    metrics: tuple = ()
    run_ids: tuple = ()
    by_problem: np.ndarray | None = None
    problems: tuple | None = None  # (benchmark, problem_id)
    counts: np.ndarray | None = None
    n: int | None = None
    k: int | None = None
    rows: pd.DataFrame | None = None  # the rows that were averaged

    @cached_property
    def first_run(self) -> tuple[list[dict], float]:
        """Return the rows of the first seed, and the sum of the squares of their noise over
        samples: the column `sampling`, else the (larger) standard error over problems."""
        rows = self.rows[self.rows["seed"] == self.seeds[0]]
        known = rows["sampling"] if "sampling" in rows else rows["stderr"]
        noise = known.fillna(rows["stderr"]).fillna(0.0)
        names = ["model", "method", "metric", "step", "value", "unit"]
        columns = zip(*(rows[name].tolist() for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in columns], float((noise**2).sum())

    def at(self, seeds: list) -> "Found":
        rows = [self.seeds.index(seed) for seed in seeds]
        arrays = {name: getattr(self, name) for name in ("values", "by_problem", "counts")}
        kept = {name: None if x is None else x[rows] for name, x in arrays.items()}
        return replace(self, seeds=tuple(seeds), **kept)

    def of(self, sets: list["Found"]) -> "Found":
        """Return a copy of this plain mean over `sets` with their values per problem."""
        wide, strata = on_all_problems([one.at(list(self.seeds)) for one in sets])
        if strata is None:
            return self
        problems = tuple(sorted({problem for one in sets for problem in one.problems}))
        return replace(self, by_problem=np.mean(wide, axis=0), problems=problems)


@dataclass(frozen=True)
class Counts:
    """Numbers of samples `n` and of correct samples `c`, each (R,), indexed by evaluation."""

    rows: dict[tuple, np.ndarray]  # values of EVALUATION -> positions in the arrays
    problem: np.ndarray  # (R,), index into `names`
    names: list[tuple]  # (benchmark, problem_id), sorted
    n: np.ndarray
    c: np.ndarray
    # values of EVALUATION -> (problems, value of each): readings other than an evaluation's pass@k
    areas: dict[tuple, tuple[tuple, np.ndarray]] = field(default_factory=dict)


class Rows:
    """Result rows in which hundreds of selectors look for the same values."""

    def __init__(self, frame: pd.DataFrame):
        self.frame = frame
        self.equal = cache(self._equal)  # of (column, value)

    def _equal(self, column: str, value) -> np.ndarray:
        of = self.frame[column]
        return (of.isna() if value is None else of == value).to_numpy(bool)


def tidy(rows: pd.DataFrame) -> Rows:
    """Return the rows with all result columns; text as categories, which compare faster."""
    more = [name for name in ("sampling", "measured") if name in rows]  # of cluster rows
    rows = rows.reindex(columns=[*COLUMNS, *more])
    for column in ("k", "value", "seed", "step"):
        rows[column] = pd.to_numeric(rows[column])
    return Rows(rows.astype({column: "category" for column in WORDS}))


def select(place: str, selector: dict, rows: Rows, counts: Counts | None) -> Found:
    """Return the values of a selector in `tidy` rows: per seed and, if `counts` cover them, per
    problem. Without `step`, each seed's last step counts. Seeds that lack one of the values to
    average are left out. Raises Missing for an empty result, Refused if the table refuses the
    reading, and UserError, beginning with `place`, if several rows of a seed match or counts
    contradict rows."""
    wanted = {key: v if isinstance(v, list) else [v] for key, v in selector.items()}
    hits = {key: np.logical_or.reduce([rows.equal(key, v) for v in wanted[key]]) for key in wanted}
    meant = np.logical_and.reduce([*hits.values(), np.full(len(rows.frame), True)])
    found = meant & rows.frame["value"].notna().to_numpy()
    if not found.any():
        metrics = dict.fromkeys(rows.frame["metric"][meant].astype(str))
        if refused := [metric for metric in metrics if REFUSED in metric]:
            raise Refused("; ".join(refused))
        absent = {key: selector[key] for key in hits if not hits[key].any()} or selector
        raise Missing("no row with " + words(absent))
    chosen = rows.frame[found]
    lists = [key for key in wanted if len(wanted[key]) > 1 and key != "seed"]
    one = len(chosen) == 1 and not lists  # a printed number: nothing to choose among
    if "step" not in selector and not one:
        steps = chosen["step"].fillna(-1)
        groups = steps.groupby([chosen[key] for key in ("seed", *lists)], dropna=False)
        chosen = chosen[steps == groups.transform("max")]
    if not one:
        chosen = _each_seed_once(place, selector, wanted, lists, chosen)
    if len(chosen) == 1:
        index, values = chosen["seed"], chosen["value"]
    else:
        values = chosen.groupby("seed", dropna=False)["value"].mean()
        index = values.index
    seeds = None if index.isna().any() else tuple(index)
    result = Found(
        words(selector) or "all",
        seeds,
        values.to_numpy(),
        rows=chosen,
        **{  # type: ignore[arg-type]
            f"{column}s": tuple(dict.fromkeys(x for x in chosen[column].tolist() if pd.notna(x)))
            for column in ("table", "benchmark", "metric", "run_id")
        },
    )
    return (
        result if counts is None or seeds is None else _with_problems(place, result, chosen, counts)
    )


def _each_seed_once(place: str, selector: dict, wanted: dict, lists: list, chosen: pd.DataFrame):
    """Return the rows of the seeds that have every value to average; `lists` are the columns in
    which these values differ. Raises UserError if a seed has several rows for one value, or only
    some rows have a seed, and Missing if no seed has every value."""
    repeated = chosen.duplicated(["seed", *lists]).any()
    if repeated or chosen["seed"].isna().nunique() > 1:
        shared = {*lists, "seed"} if repeated else set(lists)
        keys = [key for key in SELECTABLE if key not in shared]
        differ = [key for key in keys if chosen[key].nunique(dropna=False) > 1]
        raise UserError(
            f"{place}: selector {words(selector)} matches several rows, which differ in "
            f"{', '.join(differ) or 'no column'}; name one"
        )
    groups = chosen.groupby("seed", dropna=False)["value"]
    chosen = chosen[groups.transform("size") == prod(len(wanted[key]) for key in lists)]
    if chosen.empty:
        raise Missing("some of the rows with " + words(selector))
    return chosen


def indexed(counts: pd.DataFrame) -> Counts:
    """Return counts by evaluation; a benchmark's problems are the same at each printed step."""
    names = counts["benchmark"].astype(str).str.replace(OF_STEP, "", regex=True)
    groups = counts.groupby([names, "problem_id"])
    return Counts(
        rows=counts.groupby(EVALUATION, observed=True).indices if len(counts) else {},
        problem=groups.ngroup().to_numpy(),
        names=list(groups.groups),
        n=counts["n"].to_numpy(),
        c=counts["c"].to_numpy(),
    )


def _with_problems(place: str, selected: Found, rows: pd.DataFrame, counts: Counts) -> Found:
    """Return `selected` with values per problem, if all rows are pass@k or avg@k with counts and
    all seeds have the same problems. Raises UserError if counts and rows disagree."""
    names = rows["metric"].astype(object)  # as printed, which does not say the estimator
    ours = rows["measured"].fillna(names) if "measured" in rows else names
    estimators = [estimator(str(name)) for name in ours]
    if not all(estimators):
        return selected
    keys = [*zip(*(rows[name].tolist() for name in EVALUATION), strict=True)]
    if all(key in counts.areas for key in keys):
        read = {key[EVALUATION.index("seed")]: counts.areas[key] for key in keys}
        wide = np.stack([read[seed][1] for seed in selected.seeds])
        return replace(selected, by_problem=wide, problems=read[selected.seeds[0]][0])
    if not all(key in counts.rows for key in keys):
        return selected
    behind = [counts.rows[key] for key in keys]  # positions of each row's problems
    which = np.unique(counts.problem[np.concatenate(behind)])
    problems = tuple(counts.names[i] for i in which)
    shape = (len(selected.seeds), len(problems))
    rows_read, c, sums = np.zeros(shape, int), np.zeros(shape, int), np.zeros(shape)
    for seed, unit, of, at in zip(rows["seed"], rows["unit"], estimators, behind, strict=True):
        cells = selected.seeds.index(seed), np.searchsorted(which, counts.problem[at])
        rows_read[cells] += 1
        c[cells] += counts.c[at]
        sums[cells] += estimate(of, counts.c[at], counts.n[at]) * (100 if unit == "percent" else 1)
    if not rows_read.all():
        return selected
    by_problem = sums / rows_read
    means = seed_means(by_problem, [benchmark for benchmark, _ in problems])
    if not np.allclose(means, selected.values, rtol=1e-6, atol=1e-6):
        seed = int(np.argmax(abs(means - selected.values)))
        raise UserError(
            f"{place}: counts of method={rows['method'].iloc[0]}, seed={selected.seeds[seed]} give "
            f"{means[seed]:.6g}, the row says {selected.values[seed]:.6g}; "
            "they are from different runs; run it again"
        )
    selected = replace(selected, by_problem=by_problem, problems=problems)
    sizes = np.unique(counts.n[np.concatenate(behind)])
    name, k = estimators[0]
    if name != "pass" or len(sizes) > 1 or (rows[["metric", "step"]].nunique() > 1).any():
        return selected
    return replace(selected, counts=c // rows_read, n=int(sizes[0]), k=k)


def on_all_problems(found: list[Found]) -> tuple[list[np.ndarray], tuple | None]:
    """Return the values of each on the problems of all, (S, P), and the benchmark of each problem;
    without problems, values (S, 1) and None. A mean over m of all M benchmarks has its values times
    M / m there and 0 elsewhere, so that its mean over the M benchmarks is the same."""
    if any(x.problems is None for x in found):
        return [x.values[:, None] for x in found], None
    problems = found[0].problems
    if all(x.problems == problems for x in found):
        return [x.by_problem for x in found], tuple(name for name, _ in problems)
    place = {one: i for i, one in enumerate(sorted({one for x in found for one in x.problems}))}
    strata, wide = tuple(name for name, _ in place), []
    for x in found:
        wide.append(np.zeros((len(x.seeds), len(place))))
        share = len(set(strata)) / len({name for name, _ in x.problems})
        wide[-1][:, [place[one] for one in x.problems]] = share * x.by_problem
    return wide, strata


def words(selector: dict) -> str:
    return ", ".join(f"{key}={value}" for key, value in selector.items())
