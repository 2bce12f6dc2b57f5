"""One matching at equal pass@1, by hand."""

import pandas as pd
import pytest

from common.claims.select import REFUSED
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
    first passes them half-way from 20 to 40; B's first at 36 after 62.5 % of the way."""
    rows = [
        *points("base", 1, {0: (20.0, 50.0)}),
        *points("base", 2, {0: (24.0, 60.0)}),
        *points("A", 1, {50: (20.0, 50.0), 100: (40.0, 10.0)}),
        *points("A", 2, {50: (34.0, 20.0)}),
        *points("B", 1, {50: (20.0, 50.0), 100: (36.0, 42.0)}),
    ]
    out = read(rows)
    assert set(out["metric"]) == {"pass@64 at natural pass@1 10.0 points above base"}
    values = {(m, seed): value for m, seed, value in out[["method", "seed", "value"]].values}
    assert values == pytest.approx({("A", 1): 30.0, ("A", 2): 20.0, ("B", 1): 45.0})


def test_a_level_that_a_run_passes_before_its_first_checkpoint_is_refused():
    """B is 10 points up after 150 of 200 steps, A after 25 of its first 50, or after 100."""
    late = [*points("base", 1, {0: (20.0, 50.0)}), *points("B", 1, {50: (22.0, 48.0)})]
    late += points("B", 1, {100: (24.0, 46.0), 150: (30.0, 42.0)})
    early = points("A", 1, {50: (40.0, 10.0), 100: (41.0, 9.0)})
    refused = read([*late, *early])
    assert refused["value"].isna().all()
    assert refused["metric"].str.contains(f"{REFUSED}: seed 1 of A").all()
    there = points("A", 1, {50: (30.0, 20.0), 100: (41.0, 9.0)})  # at the checkpoint itself
    assert read([*late, *there])["value"].tolist() == [20.0, 42.0]


def read(rows: list[dict]) -> pd.DataFrame:
    frame = pd.DataFrame(rows).reindex(columns=COLUMNS)
    return matched.at_matched_accuracy(frame, "t", [("A", "B")])
