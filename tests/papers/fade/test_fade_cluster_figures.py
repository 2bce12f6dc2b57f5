"""The standard deviations beside Tables 3 to 5: over groups of 2 k samples (sec 11.2)."""

import numpy as np
import pandas as pd
import pytest

from common.metrics.passk import pass_at_k
from papers.fade.cluster_figures import deviation, with_deviations

COUNTS = pd.DataFrame({"n": 200, "c": np.arange(0, 200, 5)})


@pytest.mark.parametrize("k", [1, 10])
def test_the_deviation_is_that_of_groups_of_twice_k_samples(k):
    rng = np.random.default_rng(1)
    rates = (COUNTS["c"] / COUNTS["n"]).to_numpy()
    drawn = rng.binomial(2 * k, rates, (4000, len(rates)))
    means = 100 * pass_at_k(drawn.ravel(), 2 * k, [k]).reshape(drawn.shape).mean(1)
    assert deviation(COUNTS, k) == pytest.approx(means.std(ddof=1), rel=0.06)


def test_pass_at_1_of_groups_of_two_is_a_mean_of_two():
    half = pd.DataFrame({"n": 200, "c": [100] * 50})
    assert deviation(half, 1) == pytest.approx(100 * np.sqrt(0.25 / 2 / 50))
    assert deviation(half.assign(c=200), 1) == 0


def test_a_cell_has_the_deviation_of_its_own_step_and_one_seed():
    about = {"table": "t", "model": "M", "method": "A", "benchmark": "x"}
    counts = pd.concat(
        [COUNTS.assign(**about, step=10, seed=1), COUNTS.assign(**about, step=20, seed=1, c=0)]
    )
    cells = pd.DataFrame(
        [about | {"metric": "pass@1", "k": 1, "step": step} for step in ("10", "30", None)]
    )
    values = with_deviations(cells, counts)["deviation"]
    assert values[0] == pytest.approx(deviation(COUNTS, 1))
    assert values[1:].isna().all()  # missing stays missing
    two = pd.concat([counts, counts.assign(seed=2)])
    assert with_deviations(cells, two)["deviation"].isna().all()
