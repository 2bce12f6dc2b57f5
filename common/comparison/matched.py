"""Diversity at equal accuracy on the laptop testbed: a slower learner looks diversity-preserving
until it is asked this."""

import numpy as np
import pandas as pd

from common.claims.select import REFUSED
from common.results.columns import COLUMNS

ACCURACY = ("natural", "pass@1")  # what is matched
DIVERSITY = ("rare", "pass@64")  # the primary measure: seed noise on rare pass@256 is larger
LEAST_RISE = 2.0  # points of accuracy above the base model, below which nothing was learned


def curves(rows: pd.DataFrame, table: str) -> pd.DataFrame:
    """Points of the training curves of one table: method, seed, step, accuracy, diversity.

    The base model is step 0 of every run, whatever the table: a seed's own, for seeds may start
    from different ones; the mean of all where a seed has none.
    """
    wide = {}
    for name, (benchmark, metric) in {"accuracy": ACCURACY, "diversity": DIVERSITY}.items():
        values = rows[(rows["benchmark"] == benchmark) & (rows["metric"] == metric)]
        wide[name] = values.set_index(["table", "method", "seed", "step", "run_id"])["value"]
    points = pd.DataFrame(wide).reset_index()
    base = points.loc[points["method"] == "base", ["seed", "step", "accuracy", "diversity"]]
    all_seeds = base.groupby("step", as_index=False)[["accuracy", "diversity"]].mean()
    own = {seed: one.drop(columns="seed") for seed, one in base.groupby("seed")}
    points = points[(points["table"] == table) & (points["method"] != "base")]
    starts = [
        own.get(seed, all_seeds).assign(method=method, seed=seed, run_id=run_id)
        for method, seed, run_id in points[["method", "seed", "run_id"]].drop_duplicates().values
    ]
    columns = ["method", "seed", "run_id", "step", "accuracy", "diversity"]
    return pd.concat([points, *starts])[columns].sort_values(columns[:4], ignore_index=True)


def at_matched_accuracy(rows: pd.DataFrame, table: str, pairs: list[tuple]) -> pd.DataFrame:
    """Result rows of diversity at one accuracy for each pair of methods that was run, by seed.

    The accuracy is the most points above its own base model that every run of both methods reached;
    each run's curve is read where it first reaches it, linearly between its points. Rows have table
    "<table>, <A> vs <B> at matched pass@1"; none where there is no base model or only one method.

    Less than LEAST_RISE points are refused, what a run reaches before its first checkpoint, and
    what it reaches between checkpoints that are farther apart than the closest of both methods: the
    rows then have no value, and the metric's name says why (docs/evidence.md).
    """
    points, matched = curves(rows, table), []
    for pair in pairs:
        sides = {method: points[points["method"] == method] for method in pair}
        if any(side.empty or side["step"].min() > 0 for side in sides.values()):
            continue
        both = pd.concat(sides.values()).groupby(["method", "seed", "run_id"])
        runs = {run: x.assign(accuracy=x["accuracy"] - x["accuracy"].iloc[0]) for run, x in both}
        rise = min(x["accuracy"].max() for x in runs.values())
        places = {run: first_reach(x["accuracy"].to_numpy(), rise) for run, x in runs.items()}
        metric = f"{DIVERSITY[1]} at {ACCURACY[0]} {ACCURACY[1]} {rise:.1f} points above base"
        refused = _refusal(rise, runs, places)
        for (method, seed, run_id), curve in both:
            value = interpolated(curve["diversity"].to_numpy(), places[method, seed, run_id])
            matched.append(
                {
                    "table": f"{table}, {pair[0]} vs {pair[1]} at matched pass@1",
                    "model": rows["model"].iloc[0],
                    "method": method,
                    "benchmark": DIVERSITY[0],
                    "metric": metric + refused,
                    "k": 64,
                    "value": np.nan if refused else float(value),
                    "unit": "percent",
                    "seed": seed,
                    "run_id": run_id,
                }
            )
    return pd.DataFrame(matched, columns=COLUMNS)


def _refusal(rise: float, curves: dict, places: dict) -> str:
    """Why a level is refused; "" where it is not."""
    if rise < LEAST_RISE:
        return f" ({REFUSED}: less than {LEAST_RISE:g})"
    steps = {run: curve["step"].to_numpy() for run, curve in curves.items()}
    spacing = min(np.diff(x).min() for x in steps.values())
    for run, (i, share) in places.items():
        if i == 1 and share < 1 - 1e-9:
            return f" ({REFUSED}: seed {run[1]:g} of {run[0]} is there before its first checkpoint)"
        if i and steps[run][i] - steps[run][i - 1] > spacing:
            return f" ({REFUSED}: no checkpoint of seed {run[1]:g} within {spacing:g} steps of it)"
    return ""


def first_reach(accuracy: np.ndarray, level: float) -> tuple[int, float] | None:
    """(i, share): `accuracy` (T,), by time, first reaches `level` that share of the way from i - 1
    to i; None where it never does."""
    reached = np.flatnonzero(accuracy >= level - 1e-9)
    if not len(reached):
        return None
    i = int(reached[0])
    if i == 0:
        return 0, 0.0
    return i, (level - accuracy[i - 1]) / (accuracy[i] - accuracy[i - 1])


def interpolated(values: np.ndarray, place: tuple[int, float]) -> np.ndarray:
    """What (T, ...) values are at a `first_reach`."""
    i, share = place
    return values[0] if i == 0 else values[i - 1] + share * (values[i] - values[i - 1])
