"""A user's own laptop rows against the committed ones."""

import numpy as np
import pandas as pd
import pytest

from common.comparison import replication, text
from common.comparison.spec import spec_of
from common.results.columns import COLUMNS
from common.results.files import write_csv

SPEC = spec_of("f_grpo")


def by_seed(values, first=1) -> pd.Series:
    return pd.Series(np.array(values, float), range(first, first + len(values)))


@pytest.mark.parametrize("first", [1, 11])  # the seeds of both sides are the same, or others
def test_two_draws_of_one_thing_replicate_and_a_shift_of_four_errors_differs(first):
    random, words = np.random.default_rng(0), {0.0: [], 4.0: []}
    for _ in range(1500):
        base = random.normal(scale=2.0, size=9)  # larger than a seed's
        other = base if first == 1 else random.normal(scale=2.0, size=9)
        starts = ((base, 1), (other, first))
        sides = [by_seed(50 + start + random.normal(size=9), f) for start, f in starts]
        for shift, found in words.items():
            error = replication.difference(*sides).stderr
            gap = replication.difference(sides[0], sides[1] + shift * error)
            found.append(replication.verdict(gap))
    same, moved = (pd.Series(found).value_counts(normalize=True) for found in words.values())
    assert 0.935 < same["replicates"] < 0.965
    assert moved["differs"] > 0.9


def test_too_few_seeds_have_no_interval():
    def said(stored, own, first=1):
        return replication.verdict(replication.difference(by_seed(stored), by_seed(own, first)))

    assert said([1.0], [2.0]) == said([1.0, 2.0], [1.0, 2.0]) == "too few seeds"
    assert said([1.0, 1.5, 2.0], [2.0, 3.0], 4) == "too few seeds"
    for first in (1, 4):
        assert said([3.0] * 3, [3.0] * 3, first) == "replicates"
        assert said([3.0] * 3, [3.1] * 3, first) == "differs"


def rows(values, method="GRPO", step=200, name="r", **more):
    one = {"table": "laptop_strong", "model": "tiny", "method": method, "benchmark": "rare"}
    one |= {"metric": "pass@64", "unit": "percent", "step": step} | more
    return [one | {"value": v, "seed": i, "run_id": f"{name}{i}"} for i, v in enumerate(values, 1)]


def test_rows_are_compared_at_one_step_and_over_the_same_seeds(tmp_path):
    reference, root = tmp_path / "reference", tmp_path / "results"
    stored = rows([40.0, 41.0, 42.0, 43.0, 44.0, 80.0, 90.0])
    stored += rows([1.0, 2.0, 3.0], "DAPO") + rows([5.0, 6.0, 7.0], metric="pass@3")
    table = pd.DataFrame(stored).reindex(columns=COLUMNS)
    write_csv(reference / "f_grpo" / "laptop" / "metrics.csv.gz", table)
    own = rows([41.0, 42.0, 46.0], name="own") + rows([1.0, 2.0], "DAPO", step=100, name="d")
    own = pd.DataFrame(own).reindex(columns=COLUMNS).to_dict("records")

    def found():
        return replication.replication(SPEC, root, pd.DataFrame(own), reference)

    (one,) = found().to_dict("records")
    assert (one["method"], one["n_stored"], one["n_own"]) == ("GRPO", 3, 3)
    assert (one["stored"], one["own"], one["difference"]) == pytest.approx((41, 43, 2))
    half = 4.302653 * np.sqrt(3 / 3)  # t_2; the differences are 1, 1 and 4
    assert (one["low"], one["high"]) == pytest.approx((2 - half, 2 + half))
    assert one["verdict"] == "replicates"
    (shown,) = text.replicated(found(), SPEC.laptop)
    assert [line[2] for line in shown.lines] == ["41.0", "43.0", "+2.0"]
    own = [row | {"seed": row["seed"] + 20} for row in own]  # no seed is shared: all count
    (apart,) = found().to_dict("records")
    assert (apart["n_stored"], apart["difference"]) == (7, pytest.approx(43 - 380 / 7))
    assert replication.replication(SPEC, reference, pd.DataFrame(own), reference).empty
    own = [row | {"n_samples": 64} for row in own]
    assert found().empty  # fewer samples have more noise
