"""Votes and entropies against enumeration, closed forms and hand-computed cases."""

from collections import Counter
from itertools import combinations
from math import log2

import numpy as np
import pytest

from common.metrics.samples import answer_entropy, maj_at_k, token_entropy


def one(answers, correct, ks, **options):
    return maj_at_k(["p"] * len(answers), answers, correct, ks, **options)[0]


def slowly(answers, correct, k):
    """The vote of every subset, ties shared."""
    values = []
    for chosen in combinations(range(len(answers)), k):
        votes = Counter(answers[i] for i in chosen if answers[i] is not None)
        top = [a for a, times in votes.items() if times == max(votes.values())]
        right = [any(c for a, c in zip(answers, correct, strict=True) if a == name) for name in top]
        values.append(sum(right) / len(right) if top else 0.0)
    return np.mean(values)


def test_majority_by_hand():
    # a a b: k=1 2/3; k=2: aa wins, two ties of one half: (1 + 1/2 + 1/2) / 3; k=3: a wins
    answers, correct = ["a", "a", "b"], [True, True, False]
    np.testing.assert_allclose(one(answers, correct, [1, 2, 3]), [2 / 3, 2 / 3, 1])
    # a wrong answer with more votes wins
    np.testing.assert_allclose(
        one(["x", "x", "a"], [False, False, True], [1, 2, 3]), [1 / 3, 1 / 3, 0]
    )


def test_no_answer_has_no_vote():
    # None a: a wins every subset that holds it; None alone is wrong
    np.testing.assert_allclose(one([None, "a"], [False, True], [1, 2]), [0.5, 1])
    np.testing.assert_allclose(one([None, None], [False, False], [1, 2]), [0, 0])
    # three without an answer do not outvote one
    assert one([None, None, None, "a"], [False] * 3 + [True], [4])[0] == 1


def test_majority_is_the_mean_over_all_subsets():
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = 8
        answers = rng.choice(np.array(["a", "b", "c", "d", None], dtype=object), n).tolist()
        correct = [answer in ("a", "d") for answer in answers]  # two right answers
        ks = list(range(1, n + 1))
        expected = [slowly(answers, correct, k) for k in ks]
        np.testing.assert_allclose(one(answers, correct, ks), expected, atol=1e-12)


def test_answer_entropy_by_hand():
    # 1/2, 1/4, 1/4: 1.5 bits; None counts as an answer
    got = answer_entropy(["p"] * 4 + ["q"] * 4, ["a", "a", "b", None, "z", "z", "z", "z"])
    assert got.tolist() == [1.5, 0]
    n = 256
    assert answer_entropy(["p"] * n, [str(i) for i in range(n)])[0] == pytest.approx(8)
    assert answer_entropy(["p"] * 3, [None, None, "a"])[0] == pytest.approx(
        -(2 / 3 * log2(2 / 3) + 1 / 3 * log2(1 / 3))
    )


def test_token_entropy_by_hand_and_by_sampling():
    # -(-2)/4 and -(-3)/2: their mean; q has one response
    assert token_entropy(["p", "q", "p"], [-2, -1, -3], [4, 2, 2]).tolist() == [1.0, 0.5]
    rng = np.random.default_rng(0)
    p = np.array([0.7, 0.2, 0.1])
    log_probs = np.log(p)[rng.choice(3, size=(20_000, 5), p=p)].sum(axis=1)
    entropy = -(p * np.log(p)).sum()
    assert token_entropy(["p"] * 20_000, log_probs, [5] * 20_000)[0] == pytest.approx(
        entropy, abs=0.01
    )
