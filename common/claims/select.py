"""Selectors: which result rows a claim speaks of, as values a seed and, with counts, a problem.

A selector is a map of column to value. A list of values means the plain average over them, null the
empty cell. Without `step` the last step counts. `seed` chooses seeds and is not averaged.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pandas as pd

from common.errors import UserError
from common.metrics.passk import avg_at_k, pass_at_k
from common.results.columns import COLUMNS

SELECTABLE = [
    name for name in COLUMNS if name not in ("value", "stderr", "n_problems", "n_samples")
]
REFUSED = "refused"  # in the metric's name of a row without a value
COUNTED = ["table", "model", "method", "benchmark", "seed", "step"]


class Missing(Exception):
    """A selector found no rows; says which."""


class Refused(Exception):
    """A selector found a reading that its table refuses (a row without a value); says why."""


@dataclass(frozen=True)
class Found:
    """What a selector found: a value a seed (S,), and a problem (S, P) where there are counts.

    `counts` (S, P) are the correct of `n` samples, where all that was selected is one pass@k of
    benchmarks with the same n; the tables, benchmarks, metrics and runs that the values stand in
    are named.
    """

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

    def at(self, seeds: list) -> "Found":
        """The same on some of its seeds."""
        rows = [self.seeds.index(seed) for seed in seeds]
        arrays = {name: getattr(self, name) for name in ("values", "by_problem", "counts")}
        kept = {name: None if x is None else x[rows] for name, x in arrays.items()}
        return replace(self, seeds=tuple(seeds), **kept)


def on_shared_seeds(values: list[Found], least: int) -> list[Found]:
    """All with seeds on the seeds that all of them have, so that they are paired; as they are where
    these are fewer than `least`."""
    random = [x.seeds for x in values if x.seeds is not None]
    shared = sorted(set.intersection(*map(set, random))) if random else []
    if len(shared) < least:
        return values
    return [x if x.seeds is None else x.at(shared) for x in values]


def tidy(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with all result columns, the trailing ones empty where a published table lacks them."""
    rows = rows.reindex(columns=list(COLUMNS))
    for column in ("k", "value", "seed", "step"):
        rows[column] = pd.to_numeric(rows[column])
    return rows


def select(place: str, selector: dict, rows: pd.DataFrame, counts: pd.DataFrame | None) -> Found:
    """The values of a selector in `tidy` rows, a seed and, if `counts` cover them, a problem.

    counts: table, model, method, benchmark, seed, step, problem_id, n, c. Seeds that lack one of
    the values to average are left out. Raises Missing if nothing is left, and UserError, which
    starts with `place`, if several rows a seed match, or if counts and rows disagree.
    """
    wanted = {key: v if isinstance(v, list) else [v] for key, v in selector.items()}
    hits = {
        key: np.logical_or.reduce([_equal(rows[key], v) for v in wanted[key]]) for key in wanted
    }
    chosen = rows[np.logical_and.reduce([*hits.values(), rows["value"].notna()])]
    if chosen.empty:
        named = rows[np.logical_and.reduce(list(hits.values()))]
        refused = named["metric"][named["metric"].astype(str).str.contains(REFUSED)].unique()
        if len(refused):
            raise Refused("; ".join(refused))
        absent = {key: selector[key] for key in hits if not hits[key].any()} or selector
        raise Missing("no row with " + words(absent))
    lists = [key for key in wanted if len(wanted[key]) > 1 and key != "seed"]
    one = len(chosen) == 1 and not lists  # a printed number: nothing to choose among
    if "step" not in selector and not one:
        steps = chosen["step"].fillna(-1)
        groups = steps.groupby([chosen[key] for key in ("seed", *lists)], dropna=False)
        chosen = chosen[steps == groups.transform("max")]
    if not one:
        chosen = _each_seed_once(place, selector, wanted, lists, chosen)
    values = chosen.groupby("seed", dropna=False)["value"].mean()
    seeds = None if values.index.isna().any() else tuple(values.index)
    result = Found(
        words(selector) or "all",
        seeds,
        values.to_numpy(),
        **{  # type: ignore[arg-type]
            f"{column}s": tuple(chosen[column].dropna().unique())
            for column in ("table", "benchmark", "metric", "run_id")
        },
    )
    return (
        result if counts is None or seeds is None else _with_problems(place, result, chosen, counts)
    )


def _each_seed_once(place: str, selector: dict, wanted: dict, lists: list, chosen: pd.DataFrame):
    """The rows of the seeds that have each of the values to average."""
    repeated = chosen.duplicated(["seed", *lists]).any()
    if repeated or chosen["seed"].isna().nunique() > 1:
        shared = {*lists, "seed"} if repeated else set(lists)
        keys = [key for key in SELECTABLE if key not in shared]
        differ = [key for key in keys if chosen[key].nunique(dropna=False) > 1]
        raise UserError(
            f"{place}: selector {words(selector)} matches several rows, which differ in "
            f"{', '.join(differ) or 'nothing'}; name one"
        )
    groups = chosen.groupby("seed", dropna=False)["value"]
    chosen = chosen[groups.transform("size") == prod(len(wanted[key]) for key in lists)]
    if chosen.empty:
        raise Missing("some of the rows with " + words(selector))
    return chosen


def _with_problems(place: str, selected: Found, rows: pd.DataFrame, counts: pd.DataFrame) -> Found:
    """`selected` with values a problem, if all rows have counts and all seeds the same problems."""
    rows = rows.assign(metric=rows["metric"].str.lower())  # over_sharpening prints AVG@8, PASS@8
    if not rows["metric"].str.match("(pass|avg)@").all():
        return selected
    near = counts[counts["method"].isin(rows["method"]) & counts["model"].isin(rows["model"])]
    joined = near.merge(rows[[*COUNTED, "metric", "k", "unit"]], on=COUNTED)
    if len(joined[COUNTED].drop_duplicates()) < len(rows[COUNTED].drop_duplicates()):
        return selected
    joined["x"] = avg_at_k(joined["c"], joined["n"])
    for k, group in joined[joined["metric"].str.startswith("pass@")].groupby("k"):
        joined.loc[group.index, "x"] = pass_at_k(
            group["c"].to_numpy(), group["n"].to_numpy(), [int(k)], group["problem_id"].to_list()
        )[:, 0]
    joined["x"] *= np.where(joined["unit"] == "percent", 100, 1)
    wide = joined.pivot_table(index="seed", columns=["benchmark", "problem_id"], values="x")
    if wide.isna().any(axis=None):
        return selected
    means = wide.T.groupby(level="benchmark").mean().mean().to_numpy()
    if not np.allclose(means, selected.values, rtol=1e-6, atol=1e-6):
        seed = int(np.argmax(abs(means - selected.values)))
        raise UserError(
            f"{place}: counts of method={rows['method'].iloc[0]}, seed={selected.seeds[seed]} give "
            f"{means[seed]:.6g}, the row says {selected.values[seed]:.6g}; "
            "not one run; run it again"
        )
    selected = replace(selected, by_problem=wide.to_numpy(), problems=tuple(wide.columns))
    if (rows[["metric", "step"]].nunique() > 1).any() or joined["n"].nunique() > 1:
        return selected
    if not rows["metric"].iloc[0].startswith("pass@"):
        return selected
    c = joined.pivot_table(index="seed", columns=["benchmark", "problem_id"], values="c")
    return replace(
        selected,
        counts=c.to_numpy().astype(int),
        n=int(joined["n"].iloc[0]),
        k=int(rows["k"].iloc[0]),
    )


def _equal(column: pd.Series, value) -> np.ndarray:
    return (column.isna() if value is None else column == value).to_numpy(bool)


def words(selector: dict) -> str:
    return ", ".join(f"{key}={value}" for key, value in selector.items())
