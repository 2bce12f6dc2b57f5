"""Diversity at equal accuracy on the laptop testbed. Without this comparison, a slower learner
looks as if it preserved diversity."""

import numpy as np
import pandas as pd

from common.claims.select import REFUSED
from common.results.columns import COLUMNS

ACCURACY = ("natural", "pass@1")  # what is matched
DIVERSITY = ("rare", "pass@64")  # the primary measure: seed noise on rare pass@256 is larger
LEAST_RISE = 2.0  # points of accuracy above the base model, below which nothing was learned


def curves(rows: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return the points of the training curves of one table: method, seed, run_id, step, accuracy,
    diversity. Step 0 is the base model of the run's seed, whatever table its rows are in, or the
    mean over all seeds where a seed has none."""
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
    """Return result rows of diversity at equal accuracy for each pair of methods, by seed.

    The accuracy is the largest rise, in points above its own base model, that every run of both
    methods reached. Each run's curve is read where it first reaches this rise, linearly between its
    points. Rows have table "<table>, <A> vs <B> at matched pass@1"; a pair has none where there is
    no base model or only one of its methods was run.

    A rise is refused if it is less than LEAST_RISE points, if a run reaches it before its first
    checkpoint, or if a run reaches it between checkpoints that are farther apart than the closest
    two of both methods. The rows then have no value, and the metric's name says why
    (docs/evidence.md).
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
    """Return why a rise is refused; "" where it is not."""
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
    """Return (i, share): `accuracy` (T,), ordered by time, first reaches `level` at this share of
    the way from point i - 1 to point i. Return None where it never does."""
    reached = np.flatnonzero(accuracy >= level - 1e-9)
    if not len(reached):
        return None
    i = int(reached[0])
    if i == 0:
        return 0, 0.0
    return i, (level - accuracy[i - 1]) / (accuracy[i] - accuracy[i - 1])


def interpolated(values: np.ndarray, place: tuple[int, float]) -> np.ndarray:
    """Return `values` (T, ...) interpolated at a place from `first_reach`."""
    i, share = place
    return values[0] if i == 0 else values[i - 1] + share * (values[i] - values[i - 1])
