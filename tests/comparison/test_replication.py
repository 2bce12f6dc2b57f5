"""A user's own runs of the study against the committed ones."""

import numpy as np
import pandas as pd
import pytest

from common.comparison import replication, text
from common.comparison.spec import MEASURES
from common.results.columns import COLUMNS


@pytest.mark.parametrize("seeds", [5, 9])
def test_two_draws_of_one_thing_replicate_and_a_shift_of_four_errors_differs(seeds):
    """Base models have effects that are larger than a run's, and both draws share them."""
    random, draws = np.random.default_rng(0), 1500
    stored, own, moved = [], [], []
    for i in range(draws):
        bases = random.normal(scale=2.0, size=seeds)
        first, second = (50 + bases + random.normal(size=seeds) for _ in range(2))
        error = (second - first).std(ddof=1) / seeds**0.5
        stored += rows(first, f"m{i}", name=f"s{i}-")
        own += rows(second, f"m{i}", name=f"o{i}-")
        moved += rows(second + 4 * error, f"m{i}", name=f"o{i}-")
    same, apart = (compared(x, stored)["verdict"].value_counts() / draws for x in (own, moved))
    assert 0.935 < same["replicates"] < 0.965
    assert apart["differs"] > 0.8


def rows(values, method="GRPO", step=1200, name="r", **more):
    one = {"table": "lr 1e-5", "model": "tiny", "method": method, "benchmark": "rare"}
    one |= {"metric": "pass@64", "unit": "percent", "step": step} | more
    return [one | {"value": v, "seed": i, "run_id": f"{name}{i}"} for i, v in enumerate(values, 1)]


def compared(own: list[dict], stored: list[dict]) -> pd.DataFrame:
    return replication.replication(
        *(pd.DataFrame(x).reindex(columns=COLUMNS) for x in (own, stored))
    )


def test_rows_are_compared_at_their_last_step_on_the_seeds_that_both_have():
    stored = rows([40.0, 41.0, 42.0, 80.0, 90.0])
    stored += rows([1.0, 2.0, 3.0], step=600)  # earlier, of the same runs
    stored += rows([1.0, 2.0, 3.0], "DAPO", name="d") + rows([5.0, 6.0, 7.0], metric="pass@3")
    own = rows([41.0, 43.0, 45.0], name="own") + rows([1.0, 2.0, 9.0], "DAPO", step=60, name="o")
    found = compared(own, stored)
    (one,) = found.to_dict("records")
    assert (one["method"], one["step"], one["n_stored"], one["n_own"]) == ("GRPO", 1200, 5, 3)
    assert (one["stored"], one["own"]) == (41.0, 43.0)  # means over the three seeds
    half = 4.302653 / np.sqrt(3)  # differences 1, 2, 3; t_2
    assert one["difference"] == pytest.approx(2)
    assert (one["low"], one["high"]) == (pytest.approx(2 - half), pytest.approx(2 + half))
    assert one["verdict"] == "replicates"
    (alike,) = compared(rows([41.0, 42.0, 43.0], name="own"), stored).to_dict("records")
    assert (alike["difference"], alike["verdict"]) == (1, "differs")
    assert np.isnan([alike["low"], alike["high"]]).all()  # a gap without spread
    assert compared(rows([41.0, 43.0], name="own"), stored)["verdict"].tolist() == ["too few seeds"]
    (same,) = compared(rows([40.0, 41.0, 42.0], name="own"), stored).to_dict("records")
    assert (same["difference"], same["verdict"]) == (0, "replicates")


def test_other_samples_and_the_same_rows_are_not_compared():
    stored = rows([40.0, 41.0, 42.0], n_samples=256)
    own = rows([41.0, 43.0, 45.0], name="own", n_samples=256)
    assert len(compared(own, stored)) == 1
    assert compared([row | {"n_samples": 64} for row in own], stored).empty  # more noise
    assert compared(stored, stored).empty
    assert compared([], stored).empty


def test_what_was_compared_is_told_as_a_table():
    found = compared(rows([41.0, 43.0, 45.0], name="own"), rows([40.0, 41.0, 42.0]))
    (shown,) = text.replicated(found, MEASURES)
    assert [line[2] for line in shown.lines] == ["41.0", "43.0", "+2.0"]
