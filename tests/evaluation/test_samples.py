import pandas as pd
import pytest

from common.evaluation import samples as samples_module
from common.evaluation.samples import Sampled, metric_rows
from common.types import Prompt, Verdict


def test_each_sample_is_judged_by_its_own_problems_reference():
    """Two of the first problem, then two of the second, in the order in which engines draw."""
    prompts = [Prompt("p", "1", "one"), Prompt("q", "2", "two")]
    drawn = [(text, 1, -1.0, True, (7,)) for text in ("one", "two", "two", "one")]
    verify = lambda pairs: [Verdict("correct" if a == b else "wrong", 1.0) for a, b in pairs]  # noqa: E731
    rows = samples_module.scored(prompts, 2, drawn, verify)
    assert rows[["problem_id", "sample", "response", "outcome"]].values.tolist() == [
        ["p", 0, "one", "correct"],
        ["p", 1, "two", "wrong"],
        ["q", 0, "two", "correct"],
        ["q", 1, "one", "wrong"],
    ]


def test_metric_rows_by_hand():
    """Problem p: right, right (the same answer), wrong, unparsed; q: right, cut off three times."""
    rows = [
        ("p", 0, "", "correct", "a", 4, -2.0, True),
        ("p", 1, "", "correct", "a", 4, -1.0, True),
        ("p", 2, "", "wrong", "b", 2, -1.0, True),
        ("p", 3, "", "unparsed", None, 2, -4.0, False),
        ("q", 0, "", "correct", "c", 4, -2.0, True),
        ("q", 1, "", "unparsed", None, 8, -2.0, False),
        ("q", 2, "", "unparsed", None, 8, -2.0, False),
        ("q", 3, "", "unparsed", None, 8, -2.0, False),
    ]
    sampled = Sampled("toy", pd.DataFrame(rows, columns=samples_module.COLUMNS[:-1]))
    counts = sampled.counts()
    assert counts.values.tolist() == [["toy", "p", 4, 2, 1], ["toy", "q", 4, 1, 1]]
    got = metric_rows(sampled, [1, 2, 8]).set_index("metric")
    assert list(got.index[:2]) == ["pass@1", "pass@2"]  # k = 8 is above n = 4
    value = got["value"]
    assert value["pass@1"] == pytest.approx(37.5)  # (2/4 + 1/4) / 2
    # 1 - C(2,2)/C(4,2) = 5/6; 1 - C(3,2)/C(4,2) = 1/2; mean 2/3
    assert value["pass@2"] == pytest.approx(100 * 2 / 3)
    assert value["token_entropy"] == pytest.approx(16 / 40)  # all nats over all tokens
    assert value["sequence_entropy"] == pytest.approx(2.0)  # 8/4 and 8/4
    assert value["distinct_correct"] == 1
    assert value["valid"] == pytest.approx(50.0)  # 3/4 and 1/4
    assert value["truncated"] == pytest.approx(50.0)  # 1/4 and 3/4
    assert value["response_length"] == pytest.approx(5.0)  # 3 and 7
    assert got["stderr"]["valid"] == pytest.approx(25.0)  # sd of 75, 25 is 50/sqrt(2), over sqrt(2)
    assert (got["n_problems"] == 2).all()
    assert (got["n_samples"] == 4).all()
