"""Forms of claims on printed numbers and on reruns."""

import numpy as np
import pandas as pd
import pytest
from claim_rows import order, rows, verdict
from refuses import refuses
from scipy.stats import ttest_rel

from common.claims.file import claim_of
from common.claims.judge import judge
from common.errors import UserError
from common.metrics.paired import Interval

PAIR = {"a": {"method": "A"}, "b": {"method": "B"}}

TWO_PAIRS = [[{"method": "A"}, {"method": "B"}], [{"method": "C"}, {"method": "D"}]]


@pytest.mark.parametrize(
    ("predicate", "values", "expected", "numbers"),
    [
        (order("A", "B"), {"A": 70.3, "B": 64.1}, "holds", "70.3 > 64.1"),
        (order("A", "B"), {"A": 64.1, "B": 64.1}, "inconclusive", "64.1 = 64.1"),
        (order("A", "B", "C", relation="<"), {"A": 1, "B": 2, "C": 3}, "holds", "1 < 2 < 3"),
        (order("A", "B", "C", relation="<"), {"A": 1, "B": 2, "C": 2}, "inconclusive", "1 < 2 = 2"),
        (order("A", "B", margin=6), {"A": 70, "B": 64}, "inconclusive", "70 > 64"),
        (order("A", "B", margin=7), {"A": 70, "B": 64}, "fails", "70 > 64"),
        (order("A", "B", margin=0.1), {"A": 0.3, "B": 0.2}, "inconclusive", "0.3 > 0.2"),
        (order("A", "B", relation="<", margin=5), {"A": 64, "B": 70}, "holds", "64 < 70"),
        (order("A", "B", relation="<", margin=7), {"A": 64, "B": 70}, "fails", "64 < 70"),
        (order("A", "X"), {"A": 64.1, "B": 64.1}, "not run", "missing: no row with method=X"),
        ({"difference": {**PAIR, "relation": "~", "value": 6, "within": 0.5}}, 0, "holds", "70.3"),
        ({"difference": {**PAIR, "relation": "~", "value": 6, "within": 0.1}}, 0, "fails", "70.3"),
        ({"difference": {**PAIR, "relation": "<", "value": 6}}, 0, "fails", "70.3 > 64.1"),
        ({"range": {"of": {"method": "A"}, "low": 70, "high": 71}}, 0, "holds", "70.3"),
        ({"range": {"of": {"method": "A"}, "low": 70.3}}, 0, "holds", "70.3"),
        # gains 6.2 and -2: mean 2.1
        (
            {"count": {"pairs": TWO_PAIRS, "relation": ">", "at_least": 1}},
            0,
            "holds",
            "1 hold, 1 fail, 0 open of 2",
        ),
        (
            {"count": {"pairs": TWO_PAIRS, "relation": ">", "at_least": 2}},
            {"A": 2, "B": 1, "C": 1, "D": 1},
            "inconclusive",
            "1 hold, 0 fail, 1 open of 2",
        ),
        (
            {"count": {"pairs": TWO_PAIRS, "relation": ">", "at_least": 2, "margin": -3}},
            0,
            "holds",
            "2 hold",
        ),
        (
            {"mean_gain": {"pairs": TWO_PAIRS, "relation": "~", "value": 2.1, "within": 0}},
            0,
            "holds",
            "mean gain 2.1 over 2 pairs",
        ),
        ({"mean_gain": {"pairs": TWO_PAIRS, "relation": ">", "value": 3}}, 0, "fails", "2.1"),
    ],
)
def test_forms_on_printed_numbers(predicate, values, expected, numbers):
    decided = verdict(predicate, rows(values or {"A": 70.3, "B": 64.1, "C": 1, "D": 3}))
    assert decided[0] == expected
    assert numbers in decided[1]


EACH = [{"method": "A"}, {"method": "C"}, {"method": "D"}]  # of which D is WIDE

HIGH, LOW = [52.0, 53.0, 51.0, 52.5, 51.5], [40.0, 42.0, 41.0, 40.5, 41.5]

WIDE = [30.0, 60.0, 45.0, 70.0, 50.0]


@pytest.mark.parametrize(
    ("predicate", "values", "expected"),
    [
        (order("A", "B"), {"A": HIGH, "B": LOW}, "holds"),
        (order("A", "B"), {"A": LOW, "B": HIGH}, "fails"),
        (order("A", "B"), {"A": HIGH, "B": WIDE}, "inconclusive"),
        (order("A", "B"), {"A": HIGH[:2], "B": LOW[:2]}, "inconclusive"),
        (order("A", "B"), {"A": HIGH, "B": LOW[:4]}, "holds"),  # on the seeds of both
        (order("A", "B"), {"A": HIGH, "B": 41.0}, "holds"),  # a printed or closed-form number
        (order("A", "B"), {"A": HIGH, "B": HIGH}, "mechanism not engaged"),
        (order("A", "B", margin=13), {"A": HIGH, "B": LOW}, "fails"),
        (order("A", "B", margin=10.5), {"A": HIGH, "B": LOW}, "inconclusive"),
        (order("A", "B", "C"), {"A": HIGH, "B": LOW, "C": WIDE}, "inconclusive"),
        (order("A", "B", "C"), {"A": HIGH, "B": LOW, "C": HIGH}, "fails"),
        ({"difference": {**PAIR, "relation": "~", "value": 11, "within": 2}}, {}, "holds"),
        ({"difference": {**PAIR, "relation": "~", "value": 15, "within": 1}}, {}, "fails"),
        ({"range": {"of": {"method": "A"}, "low": 51, "high": 53}}, {}, "holds"),
        ({"range": {"of": {"method": "A"}, "low": 52}}, {}, "inconclusive"),
        ({"count": {"pairs": TWO_PAIRS, "relation": ">", "at_least": 1}}, {}, "holds"),
        ({"count": {"pairs": TWO_PAIRS, "relation": "<", "at_least": 2}}, {}, "fails"),
        ({"count": {"of": EACH, "relation": ">", "value": 47, "at_least": 2}}, {}, "holds"),
        ({"count": {"of": EACH, "relation": ">", "value": 47, "at_least": 3}}, {}, "inconclusive"),
        ({"count": {"of": EACH, "relation": "<", "value": 47, "at_least": 2}}, {}, "fails"),
        ({"mean_gain": {"pairs": TWO_PAIRS, "relation": ">", "value": 5}}, {}, "inconclusive"),
        (
            {"mean_gain": {"pairs": TWO_PAIRS, "relation": "~", "value": 80, "within": 1}},
            {},
            "fails",
        ),
    ],
)
def test_forms_on_reruns(predicate, values, expected):
    frame = rows(values or {"A": HIGH, "B": LOW, "C": HIGH, "D": WIDE})
    assert verdict(predicate, frame)[0] == expected


def test_several_links_are_one_test_and_several_claims_are_corrected():
    # each link alone has t = 3.2 with 4 degrees of freedom, p = 0.033
    gap = 3.2 / np.sqrt(5) + np.array([-1, -1, 0, 1, 1]) / np.std([-1, -1, 0, 1, 1], ddof=1)
    a, b, c = 2 * gap, gap, 0 * gap
    values = {"A": list(50 + a), "B": list(50 + b), "C": list(50 + c)}
    assert 0.025 < ttest_rel(values["A"], values["B"]).pvalue < 0.05
    assert verdict(order("A", "B"), rows(values))[0] == "holds"
    assert verdict(order("A", "B", "C"), rows(values))[0] == "holds"
    pairs = [[{"method": "B"}, {"method": "A"}], [{"method": "A"}, {"method": "C"}]]
    both = {"count": {"pairs": pairs, "relation": ">", "at_least": 2}}
    # their mean is half a gap; the one on the wrong side does not fail it, for there were two to
    # choose from, 2 x 0.033, and keeps it open
    assert verdict(both, rows(values))[0] == "inconclusive"
    stated = [("one", "A", "B"), ("two", "B", "C"), ("none", "A", "X")]
    claims = [
        {"id": name, "claim": "", "source": "", "laptop": order(a, b)} for name, a, b in stated
    ]
    values["X"] = list(50 + a + np.array([-3.0, 2, 0, -2, 3]))
    primary = [claim_of(claim | {"family": "primary"}) for claim in claims]
    decided, gaps, _ = judge(primary, {"laptop": rows(values)})
    assert set(decided["laptop"]) == {"inconclusive"}  # Holm over three: 3 x 0.033
    assert gaps["p_holm"][0] == pytest.approx(3 * gaps["p_claim"][0])
    assert gaps["p_bh"][0] < 0.05 < gaps["p_holm"][0]
    rest = [claim_of(claim) for claim in claims]
    assert judge(rest, {"laptop": rows(values)})[0]["laptop"].tolist()[:2] == ["holds"] * 2


def test_a_sentence_on_all_is_judged_by_the_mean():
    """Four gains of 1, each with t = 2 over five seeds, which alone say nothing."""
    noise = np.array([-1, -1, 0, 1, 1.0])
    noise *= np.sqrt(5) / 2 / noise.std(ddof=1)
    other = noise[[1, 3, 4, 0, 2]]
    values = {"A": list(51 + noise), "B": list(51 + other), "C": list(51 - noise), "Z": [50.0] * 5}
    pairs = [[{"method": name}, {"method": "Z"}] for name in "ABC"]
    every = {"count": {"pairs": pairs, "relation": ">", "at_least": 3}}
    said, numbers = verdict(every, rows(values))
    assert said == "holds"
    assert "0 hold, 0 fail, 3 open of 3" in numbers
    few = {"count": every["count"] | {"at_least": 1}}
    assert verdict(few, rows(values))[0] == "inconclusive"
    claim = claim_of({"id": "x", "claim": "c", "source": "s", "laptop": every})
    _, gaps, _ = judge([claim], {"laptop": rows(values)})
    assert gaps["of"].tolist()[0] == 3
    assert gaps["of"].isna().tolist() == [False, True, True, True]
    assert gaps["difference"][0] == pytest.approx(1)
    assert gaps["verdict"].tolist() == ["holds", *["inconclusive"] * 3]
    # one that lies on the other side fails it, however high the mean
    values["B"], values["A"] = list(49 + 0.01 * noise), list(70 + noise)
    assert verdict(every, rows(values))[0] == "fails"
    # numbers without seeds are read as the sentence is written
    exact = {"A": 60.0, "B": 51.0, "C": 49.0, "Z": 50.0}
    assert verdict(every, rows(exact))[0] == "fails"


def test_an_order_of_three_is_judged_by_its_slope():
    noise = np.array([-1, -1, 0, 1, 1.0]) * 1.2
    values = {"A": list(52 + noise), "B": list(51 - noise), "C": list(50 + noise)}
    said, numbers = verdict(order("A", "B", "C"), rows(values))
    assert (said, numbers.startswith("on average 1")) == ("holds", True)
    assert verdict(order("C", "B", "A"), rows(values))[0] == "fails"
    assert verdict(order("A", "B"), rows(values))[0] == "inconclusive"


def test_a_mean_over_pairs_on_other_problems_is_over_the_problems_of_all():
    """b1 has three problems and b2 two; A - B is 25, 0, 50 and 50, 0 percent."""
    frame, counts = [], []
    for benchmark, right in (
        ("b1", {"A": [2, 2, 4], "B": [1, 2, 2]}),
        ("b2", {"A": [2, 4], "B": [0, 4]}),
    ):
        for method, c in right.items():
            for seed in range(3):
                about = {"table": "t", "model": "m", "method": method, "benchmark": benchmark}
                about |= {"seed": seed, "step": 1}
                ids = range(len(c))
                counts.append(pd.DataFrame({"problem_id": ids, "n": 4, "c": c}).assign(**about))
                frame.append(
                    about
                    | {"metric": "pass@1", "unit": "percent", "k": 1, "run_id": "r"}
                    | {"value": 25 * np.mean(c)}
                )
    pairs = [[{"method": m, "benchmark": b} for m in "AB"] for b in ("b1", "b2")]
    gain = {"mean_gain": {"pairs": pairs, "relation": ">", "value": 0}}
    claim = claim_of({"id": "x", "claim": "c", "source": "s", "laptop": gain})
    read = {"laptop": pd.DataFrame(frame)}, {"laptop": pd.concat(counts)}
    _, gaps, _ = judge([claim], *read)
    one = gaps.iloc[0]
    assert (one["n_problems"], one["test"]) == (5, "seeds and problems")
    assert one["difference"] == pytest.approx((25 + 25) / 2)
    # nothing over seeds; var 625 of three and 1250 of two problems, over two benchmarks
    interval = Interval(25, ((625 / 3 + 1250 / 2) / 4) ** 0.5, 1)
    df = (625 / 3 + 1250 / 2) ** 2 / ((625 / 3) ** 2 / 2 + (1250 / 2) ** 2)
    assert one["p"] == pytest.approx(Interval(25, interval.stderr, df).p(), rel=1e-6)


def test_a_trend_is_the_slope_over_its_settings():
    noise = [np.array([0.1, -0.1, 0, 0.2, -0.2]), np.array([0, 0.1, -0.2, 0.1, 0]), np.zeros(5)]
    values = {
        name: list(50 + 2 * x + e) for name, x, e in zip("ABC", (0, 1, 3), noise, strict=True)
    }
    trend = {"of": [{"method": name} for name in "ABC"], "at": [0, 1, 3], "relation": ">"}
    verdict_, numbers = verdict({"trend": trend}, rows(values))
    assert (verdict_, numbers[:7]) == ("holds", "slope 2")
    assert verdict({"trend": trend | {"relation": "<"}}, rows(values))[0] == "fails"
    with refuses("at", "[0.0, 1.0]"):
        verdict({"trend": trend | {"at": [0.0, 1.0]}}, rows(values))


def test_what_changed_nothing_is_no_verdict_and_a_ceiling_says_nothing():
    full = [100.0, 100.0, 100.0]
    assert verdict(order("A", "B"), rows({"A": full, "B": full}))[0] == "inconclusive"
    near = [*HIGH[:4], HIGH[4] + 1e-3]
    assert verdict(order("A", "B"), rows({"A": near, "B": HIGH}))[0] == "inconclusive"


def test_pairing_by_seed_matters():
    luck = np.array([-10.0, -5, 0, 5, 10])
    better = list(50 + luck + 1 + np.array([0.1, -0.1, 0, 0.1, -0.1]))
    count = {"count": {"pairs": TWO_PAIRS[:1], "relation": ">", "at_least": 1}}
    for predicate in (order("A", "B"), count):
        for seeds in (5, 4):  # on those of both
            paired = rows({"A": better, "B": list(50 + luck[:seeds])})
            assert verdict(predicate, paired)[0] == "holds"
        assert verdict(predicate, rows({"A": better, "B": list(50 - luck)}))[0] == "inconclusive"


def test_runs_that_share_too_few_seeds_are_not_paired():
    b = rows({"B": LOW})
    frame = pd.concat([rows({"A": HIGH}), b.assign(seed=b["seed"] + 3)])
    assert verdict(order("A", "B"), frame)[0] == "holds"


def test_lists_average_and_ask_for_every_part():
    frame = pd.concat([rows({"A": 10, "B": 1}, "x"), rows({"A": 20, "B": 60}, "y")])
    both = {"benchmark": ["x", "y"]}
    assert verdict(order("A", "B", where=both), frame) == ("fails", "15 < 30.5")
    lacking = frame[(frame.method != "B") | (frame.benchmark != "y")]
    decided = verdict(order("A", "B", where=both), lacking)
    assert decided[0] == "not run"
    assert "benchmark=['x', 'y'], method=B" in decided[1]


def test_last_step_unless_one_is_named():
    frame = pd.concat([rows({"A": 1, "B": 2}, step=0), rows({"A": 4, "B": 3}, step=50)])
    assert verdict(order("A", "B"), frame)[0] == "holds"
    assert verdict(order("A", "B", where={"step": 0}), frame)[0] == "fails"
    growth = {"order": [{"method": "A", "step": 0}, {"method": "A"}], "relation": "<"}
    assert verdict(growth, frame) == ("holds", "1 < 4")


def test_ambiguous_selector_is_refused():
    frame = pd.concat([rows({"A": 1, "B": 2}), rows({"A": 1, "B": 2}, model="other")])
    with pytest.raises(UserError, match=r"claim x: laptop.*method=A.*differ in model; name one"):
        verdict(order("A", "B"), frame)


@pytest.mark.parametrize(
    ("first", "word"), [(50.5, "holds"), (60.0, "mechanism not engaged"), (None, "holds")]
)
def test_a_claim_says_nothing_where_its_premise_fails(first, word):
    flat = {"difference": {"a": {"method": "late"}, "b": {"method": "early"}, "relation": "~",
                           "value": 0, "within": 1}}  # fmt: skip
    entries = [
        {"id": "flat", "laptop": flat},
        {"id": "x", "laptop": order("A", "B"), "premise": "flat"},
    ]
    claims = [claim_of({"claim": "c", "source": "s", **entry}) for entry in entries]
    values = {"early": 50.0, "late": first, "A": 70.3, "B": 64.1}
    frame = rows({name: value for name, value in values.items() if value is not None})
    decided, _, _ = judge(claims, {"laptop": frame})
    line = decided.set_index("id").loc["x"]
    assert line["laptop"] == word
    assert line["laptop_numbers"].startswith("70.3 > 64.1")
