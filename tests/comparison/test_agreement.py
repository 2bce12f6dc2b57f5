"""Print against the testbeds: signs and ranks of made rows, and the committed table."""

import numpy as np
import pandas as pd
import pytest
from refuses import refuses
from tiny import ROOT

from common.comparison import agreement
from common.comparison.agreement import LARGE, LARGE_NATURAL, PASS1
from common.comparison.spec import Spec, spec_of

REFERENCE = ROOT / "results" / "reference"
AVERAGED = Spec("p", "P", [], {}, [], lambda root: [], averages={"Avg": ["b", "c"], "d": ["d, 1"]})


def made(measure: str, published, countdown, mazes) -> pd.DataFrame:
    values = {"published": published, "countdown": countdown, "mazes": mazes}
    return pd.DataFrame(values).assign(measure=measure)


def found(rows: pd.DataFrame, measure: str, a: str, b: str) -> dict:
    all_of = agreement.summary(rows)
    (one,) = all_of[(all_of[["measure", "a", "b"]] == [measure, a, b]).all(axis=1)].to_dict(
        "records"
    )
    return one


def cell(model, benchmark, metric, k, gain, table="t", names=("A", "B")) -> dict:
    about = {"table": table, "model": model, "method": names[0], "baseline": names[1]}
    return about | {"benchmark": benchmark, "metric": metric, "k": k, "printed": gain}


def test_signs_are_counted_over_the_pairs_that_both_have():
    gone = np.nan
    rows = made(PASS1, [1, 2, -3, 0, 5, gone], [4, -1, -2, 1, gone, 2], [gone] * 6)
    one = found(rows, PASS1, "published", "countdown")
    assert (one["n"], one["agree"]) == (4, 2)  # 0 has no sign
    assert one["by_chance"] == (2 * 2 + 1 * 2) / 4
    assert one["rho"] == pytest.approx(0.4)  # ranks 3 4 1 2 and 4 2 1 3: 1 - 6 * 6 / (4 * 15)
    assert one["p"] == pytest.approx(0.6)


def test_measures_are_apart():
    rows = pd.concat([made(PASS1, [1, 2], [1, 1], [1, -1]), made(LARGE, [1], [-1], [1])])
    counts = agreement.summary(rows).set_index(["measure", "a", "b"])[["n", "agree"]]
    assert counts.loc[(PASS1, "published", "mazes")].tolist() == [2, 1]
    assert counts.loc[(LARGE, "countdown", "mazes")].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("published", "mazes"), [([1, 2], [3, 4]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [np.nan] * 3)]
)
def test_what_has_no_ranks_has_no_correlation(published, mazes):
    rows = made(PASS1, published, mazes, mazes)
    one = found(rows, PASS1, "published", "mazes")
    assert np.isnan(one["rho"])
    assert np.isnan(one["p"])
    (line,) = agreement.lines(pd.DataFrame([one]))
    assert line[-2:] == ["", ""]
    if not one["n"]:
        assert line[2:4] == ["0 of 0", ""]


def test_a_printed_gain_is_a_mean_of_models_without_averages_of_what_is_printed():
    cells = pd.DataFrame(
        [
            cell("m", "b", "pass@1", 1, 2.0),
            cell("m", "b", "pass@1", 1, 4.0, table="u"),  # the same cell in another table
            cell("m", "c", "pass@1", 1, 7.0),
            cell("m", "Avg", "pass@1", 1, 99.0),
            cell("n", "Avg", "pass@1", 1, 1.0),  # all that is printed of n
            cell("n", "d", "AVG@8", 8, 3.0),  # the mean of draws that are not printed
            cell("m", "b", "pass@8", 8, 99.0),
            cell("m", "b", "PASS@16", 16, -1.0),
            cell("m", "b", "entropy", np.nan, 99.0),
            cell("m", "b", "pass@1", 1, 99.0, names=("A", "C")),
        ]
    )
    said = agreement.printed(AVERAGED, cells, [("A", "B")])
    assert said[True] == {"k": 1, "published": 3.5}  # of (3 + 7) / 2 and (1 + 3) / 2
    assert said[False] == {"k": 16, "published": -1.0}
    nothing = agreement.printed(AVERAGED, cells[cells["k"] == 1], [("A", "B")])[False]
    assert np.isnan(nothing["published"])


@pytest.mark.parametrize(("shared", "known"), [(3, True), (2, False)])
def test_a_testbed_is_read_from_three_shared_seeds_on(shared, known):
    rows = []
    for method, seeds in (("A", range(shared)), ("B", range(5))):
        for seed in seeds:
            for step, gain in ((1, 9.0), (2, 5.0), (3, 1.0)):
                for benchmark, metric in agreement.READ.values():
                    row = {"table": "t", "model": "m", "method": method, "benchmark": benchmark}
                    row |= {"metric": metric, "k": int(metric[5:]), "unit": "percent", "seed": seed}
                    value = 10.0 + seed + gain * (method == "A")
                    rows.append(row | {"step": step, "value": value, "run_id": f"{method}{seed}"})
    counts = pd.DataFrame(columns=["table", "model", "method", "benchmark", "seed", "step"])
    counts = counts.assign(problem_id=[], n=[], c=[])
    for last, expected in ((1, 1.0), (3, 5.0)):
        read = agreement.measured((pd.DataFrame(rows), counts), last, "A", "B")
        assert bool(read) == known
        if known:
            assert set(read) == set(agreement.READ.values())
            assert {one[""] for one in read.values()} == {expected}


def test_each_pair_is_printed_once_and_a_gain_of_its_paper():
    for paper, pairs in agreement.PAIRS.items():
        named = [names for of in pairs.values() for names in of]
        assert len(named) == len(set(named))
        assert set(named) <= set(spec_of(paper).gains)
    rows = agreement.stored(REFERENCE)
    accuracy = rows[rows["measure"] == PASS1]
    assert accuracy[["published", "countdown"]].notna().all().all()
    assert (accuracy["k"] == 1).all()


@pytest.mark.sweep
def test_the_committed_table_is_what_the_committed_rows_give():
    stored = agreement.stored(REFERENCE)
    fresh = agreement.table(REFERENCE).astype(stored.dtypes)
    pd.testing.assert_frame_equal(fresh, stored, rtol=1e-7, atol=1e-9)


def test_the_page_holds_the_committed_table_and_says_no_more():
    text, rows = (ROOT / "docs" / "testbeds.md").read_text(), agreement.stored(REFERENCE)
    assert agreement.written(text, rows) == text, "stale: run .venv/bin/rlvr docs"
    shares, beyond = {}, {}
    for one in agreement.summary(rows).to_dict("records"):
        if one["a"] == "published":
            assert not one["p"] < 0.05, one
            shares[one["measure"], one["b"]] = one["agree"] / one["n"]
            beyond[one["measure"], one["b"]] = (one["agree"] - one["by_chance"]) / one["n"]
    assert all(share > 0.5 for key, share in shares.items() if key != (PASS1, "countdown")), shares
    assert shares[PASS1, "countdown"] < 0.2
    assert all(abs(share) < 0.25 for (measure, _), share in beyond.items() if measure != PASS1)
    signs = rows.set_index("measure")[list(agreement.SOURCES)]
    positive = (signs > 0).groupby("measure").sum() / signs.notna().groupby("measure").sum()
    assert (positive.loc[[LARGE, LARGE_NATURAL]] > 0.5).all(axis=None)
    assert positive.loc[PASS1, "published"] > 0.8
    assert positive.loc[PASS1, "countdown"] < 0.2


def test_a_page_without_marks_is_refused():
    with refuses("docs/testbeds.md", "marks"):
        agreement.written("# A page", agreement.stored(REFERENCE))
