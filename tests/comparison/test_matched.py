"""One matching at equal pass@1, by hand."""

import numpy as np
import pandas as pd
import pytest

from common.comparison import matched
from common.results.columns import COLUMNS


def points(method: str, seed: int, curve: dict[int, tuple[float, float]]) -> list[dict]:
    """Result rows of (natural pass@1, rare pass@64) by step."""
    same = {"table": "t", "model": "m", "method": method, "seed": seed, "run_id": f"{method}{seed}"}
    named = (matched.ACCURACY, matched.DIVERSITY)
    return [
        same | {"benchmark": benchmark, "metric": metric, "step": step, "value": value}
        for step, values in curve.items()
        for (benchmark, metric), value in zip(named, values, strict=True)
    ]


def test_the_level_is_one_that_every_run_reached():
    """The least of all runs' rises, 10 points: A's second run, from a base model of its own. A's
    first passes them half-way to 40; B's first at 36 after 62.5 % of the way."""
    rows = [
        *points("base", 1, {0: (20.0, 50.0)}),
        *points("base", 2, {0: (24.0, 60.0)}),
        *points("A", 1, {50: (40.0, 10.0)}),
        *points("A", 2, {50: (34.0, 20.0)}),
        *points("B", 1, {50: (36.0, 42.0)}),
    ]
    frame = pd.DataFrame(rows).reindex(columns=COLUMNS)
    out = matched.at_matched_accuracy(frame, "t", [("A", "B")])
    assert set(out["metric"]) == {"pass@64 at natural pass@1 10.0 points above base"}
    values = {(m, seed): value for m, seed, value in out[["method", "seed", "value"]].values}
    assert values == pytest.approx({("A", 1): 30.0, ("A", 2): 20.0, ("B", 1): 45.0})


def test_where_a_curve_first_reaches_a_level_and_what_it_is_there():
    place = matched.first_reach(np.array([20.0, 40.0, 10.0, 50.0]), 35.0)
    assert place == (1, pytest.approx(0.75))  # three quarters of the way to the second point
    assert matched.interpolated(np.array([8.0, 4.0, 0.0, 0.0]), place) == pytest.approx(5.0)
