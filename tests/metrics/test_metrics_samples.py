from math import log2

import pytest

from common.metrics.samples import answer_entropy, token_entropy


def test_answer_entropy_by_hand():
    # 1/2, 1/4, 1/4: 1.5 bits; None counts as an answer
    assert answer_entropy(["q", "p", "q", "p"], ["a", "x", "b", "x"]).tolist() == [1, 0]
    got = answer_entropy(["p"] * 4 + ["q"] * 4, ["a", "a", "b", None, "z", "z", "z", "z"])
    assert got.tolist() == [1.5, 0]
    n = 256
    assert answer_entropy(["p"] * n, [str(i) for i in range(n)])[0] == pytest.approx(8)
    assert answer_entropy(["p"] * 3, [None, None, "a"])[0] == pytest.approx(
        -(2 / 3 * log2(2 / 3) + 1 / 3 * log2(1 / 3))
    )


def test_token_entropy_by_hand():
    # -(-2)/4 and -(-3)/2: their mean; q has one response
    assert token_entropy(["p", "q", "p"], [-2, -1, -3], [4, 2, 2]).tolist() == [1.0, 0.5]
