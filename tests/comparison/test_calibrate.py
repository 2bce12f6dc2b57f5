import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from common.comparison import calibrate
from common.comparison.calibrate import (
    AVERAGE,
    CELLS,
    GAINS,
    NONE,
    SEEDS,
    TRUE,
    WORLDS,
    Plan,
    stored,
)
from common.config.files import papers

PAPERS = papers()


@pytest.fixture(scope="module")
def small() -> Plan:
    return Plan("cov_grpo")


@pytest.fixture(scope="module", params=PAPERS)
def table(request) -> tuple[str, pd.DataFrame]:
    return request.param, stored(request.param)


@pytest.mark.parametrize(
    ("passk", "off"),  # points: whole problems are solved or not where pass@k is flat
    [(((1, 6.7), (256, 40.8)), 0.02), (((1, 75.8), (128, 75.9)), 1.0), (((8, 50.0),), 0.02)],
)
def test_problems_have_the_printed_pass_at_k_and_a_seed_moves_them_by_its_spread(passk, off):
    x, moves = calibrate.solved(passk, 300)

    def share(k, x):
        return 100 * (1 - (1 - expit(x)) ** k).mean()

    for k, value in passk:
        assert share(k, x) == pytest.approx(value, abs=off)
    first, last = passk[0][0], passk[-1][0]
    small = 1.0 if first == 1 else 1.375
    assert share(first, x + 0.1 * moves[:, 0]) - share(first, x) == pytest.approx(
        0.1 * small, rel=0.15
    )
    if last > 8 and passk[-1][1] < 75:
        assert share(last, x + 0.1 * moves[:, 0]) == pytest.approx(passk[-1][1], abs=0.03)
        assert share(last, x + 0.1 * moves[:, 1]) - share(last, x) == pytest.approx(0.2, rel=0.1)


def test_worlds_lie_between_the_baseline_and_beyond_the_print(small):
    key = ["table", "model", "method", "benchmark", "metric"]
    cells = small.cells.set_index(key)["value"]
    base = small._base(small.cells)
    place = ("table2", "DeepSeek-R1-Distill-Qwen-1.5B")
    method = "GRPO + Gaussian Reweight (CW-GRPO)"
    at = small.cells[key].apply(tuple, axis=1).tolist()
    for benchmark in ("AIME24", "MATH-500"):
        i = at.index((*place, method, benchmark, "pass@1"))
        assert base[i] == cells[(*place, "Base Model", benchmark, "pass@1")]
        gain = small.cells["value"][i] - base[i]
        assert small.truth(0.5)[i] == pytest.approx(base[i] + gain / 2)
        assert small.truth(-1.0)[i] == pytest.approx(max(base[i] - gain, 0))


def test_a_rerun_is_judged_as_a_real_one_and_is_the_same_again(small):
    true = small.truth(1.0)
    one, two = (small.rerun(true, np.random.default_rng(3), 1) for _ in range(2))
    pd.testing.assert_frame_equal(one, two)
    lines = one.set_index("claim")
    assert lines.loc[CELLS, "holds"] > 0.9
    assert lines.loc[GAINS, "fails"] < 0.1
    assert lines["mdd"].dropna().gt(0).any()
    rows, right = small._drawn(true, np.random.default_rng(3), 1)
    assert {"sampling", "stderr"} <= set(rows)
    counts = small._places(1)
    assert len(right) == counts.c.max() + 1


def test_every_claim_that_printed_cells_decide_has_a_line(table):
    paper, lines = table
    plan = Plan(paper)
    asked = set(plan.judged(plan.rows(plan.truth(1.0), 1))["id"])
    for place, part in lines.groupby(["world", "seeds"]):
        assert set(part["claim"]) == asked | {CELLS, GAINS}, place
    assert set(lines["world"]) == set(WORLDS)
    assert set(lines["seeds"]) == set(SEEDS)


def test_a_faithful_rerun_is_recognised_more_with_more_seeds_and_a_false_one_is_not(table):
    _, lines = table
    lines = lines[lines["truth"].notna()]
    lines = lines[lines["truth"] != AVERAGE]  # whether it holds or fails, it is right
    true = lines["truth"] == "holds"
    mean = lines.groupby(["world", "seeds", true])[["holds", "fails"]].mean()
    first, third, fifth = (mean.loc[(TRUE, seeds, True), "holds"] for seeds in SEEDS)
    assert first < third < fifth
    assert all(mean.loc[(TRUE, seeds, True), "fails"] <= 0.01 for seeds in SEEDS)
    for world in (NONE, "opposite"):
        assert all(mean.loc[(world, seeds, False), "holds"] <= 0.05 for seeds in SEEDS)
