from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtrit

from common.errors import UserError
from common.metrics.paired import Interval, subsample_means, subsampling_test, two_way_interval
from common.metrics.passk import avg_at_k, estimate, estimator, pass_at_k, report


def exact(n, c, k):
    return 1 - Fraction(comb(n - c, k), comb(n, k))


def test_pass_at_k_by_hand():
    # n=4, c=1: pass@2 = 1 - C(3,2)/C(4,2) = 1 - 3/6; n=2, c=1: pass@2 = 1
    np.testing.assert_allclose(pass_at_k([1, 1], [4, 2], [1, 2]), [[0.25, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(avg_at_k([1, 3], [4, 4]), [0.25, 0.75])


def test_best_at_k_is_the_share_of_draws_with_replacement_that_hit():
    samples = [1, 0, 0, 1]
    draws = [any(draw) for draw in product(samples, repeat=3)]
    assert estimate(("best", 3), [2, 0, 4], 4) == pytest.approx([np.mean(draws), 0, 1])
    # verl's bootstrap: 1,000 draws of 8 of 8
    rng, right = np.random.default_rng(0), np.arange(8) < 2
    drawn = right[rng.choice(8, (100_000, 8))].any(1).mean()
    assert estimate(("best", 8), [2], 8)[0] == pytest.approx(drawn, abs=0.005)


def test_a_metrics_name_says_its_estimator():
    names = ("pass@8", "avg@8", "best@8", "PASS@8", "AVG@8", "token_entropy")
    kinds = [("pass", 8), ("pass", 1), ("best", 8), ("pass", 8), ("pass", 1), None]
    assert [estimator(name) for name in names] == kinds


@pytest.mark.parametrize(
    ("c", "n", "ks", "words"),
    [
        ([1, 2], [8, 4], [5], ["problem 1", "k=5", "n=4"]),
        ([1, 5], 4, [1], ["problem 1", "c=5", "n=4"]),
        ([-1], 4, [1], ["problem 0", "c=-1"]),
        ([float("nan")], 4, [1], ["problem 0", "c=nan"]),
        ([1.5], 4, [1], ["c=1.5"]),
        ([1], float("nan"), [1], ["n=nan"]),
        ([0], 0, [1], ["n=0"]),
        ([1], 4, [0], ["k=[0]"]),
        ([1], 4, [], ["k=[]"]),
    ],
)
def test_bad_counts_are_refused(c, n, ks, words):
    with pytest.raises(UserError) as error:
        pass_at_k(c, n, ks)
    assert all(word in str(error.value) for word in words), error.value


def counts(c, n=4, benchmark="b"):
    names = [f"p{i}" for i in range(len(c))]
    return pd.DataFrame({"benchmark": benchmark, "problem_id": names, "n": n, "c": c})


def test_report_in_percent_with_stderr_over_problems():
    rows = report(pd.concat([counts([0, 4]), counts([1], benchmark="other")]), [1, 2])
    assert rows["value"].tolist() == pytest.approx([50, 50, 25, 50])
    # sd of (0, 100) is 70.71, over sqrt(2) problems 50; one problem has no spread
    assert rows["stderr"].tolist()[:2] == pytest.approx([50, 50])
    assert rows["stderr"].isna().tolist() == [False, False, True, True]
    assert rows["metric"].tolist() == ["pass@1", "pass@2"] * 2
    assert rows[["unit", "n_problems", "n_samples"]].to_numpy().tolist()[0] == ["percent", 2, 4]


@pytest.mark.parametrize("k", [1, 16, 64])
def test_subsampling_has_the_exact_mean_and_variance(k):
    n, m, iterations = 256, 64, 200_000
    c = np.array([1, 2, 2, 40, 200, 255])
    draws = subsample_means(c.tobytes(), n, k, m, iterations, (3,))
    mean = variance = 0.0
    for correct in c.tolist():
        pmf = [comb(correct, x) * comb(n - correct, m - x) / comb(n, m) for x in range(m + 1)]
        f = [float(exact(m, x, k)) for x in range(m + 1)]
        first, second = np.dot(pmf, f), np.dot(pmf, np.square(f))
        mean, variance = mean + first / len(c), variance + (second - first**2) / len(c) ** 2
    assert mean == pytest.approx(pass_at_k(c, n, [k]).mean())  # unbiased
    assert abs(draws.mean() - mean) < 4 * np.sqrt(variance / iterations)
    assert draws.var() == pytest.approx(variance, rel=0.02)


def test_subsampling_test_reads_as_the_paper_says():
    rng = np.random.default_rng(0)
    a = rng.binomial(1024, 0.30, 40)
    b = rng.binomial(1024, 0.27, 40)
    options = {"n": 1024, "ks": [1, 256], "m": 256, "iterations": 5000, "seed": 0}
    row = subsampling_test(a, b, **options)[0]
    assert row["difference"] == pytest.approx(100 * (a.mean() - b.mean()) / 1024)
    assert 0 < row["low"] < row["difference"] < row["high"]
    assert row["p"] == pytest.approx(2 / 5001)
    assert subsampling_test(a, b, **options)[0] == row
    back = subsampling_test(b, a, **options)[0]
    assert back["difference"] == -row["difference"]
    same = subsampling_test([0, 1024], [0, 1024], **options)
    assert [(x["difference"], x["p"]) for x in same] == [(0, 1)] * 2
    assert np.isnan([(x["low"], x["high"]) for x in same]).all()  # every draw is the same


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"m": 8}, "m=8: must be below n=8"),
        ({"ks": [5]}, "k=5"),
        ({"c_b": [1]}, "2 problems"),
        ({"c_b": [1, 9]}, "c=9"),
        ({"iterations": 0}, "iterations=0"),
    ],
)
def test_subsampling_refuses(change, word):
    options = {"c_a": [1, 2], "c_b": [1, 2], "n": 8, "ks": [1], "m": 4, "iterations": 10, "seed": 0}
    with pytest.raises(UserError, match=word):
        subsampling_test(**{**options, **change})


def test_interval_over_seeds_alone_is_the_t_interval():
    # mean 2, sd 1, 3 values: t_2(0.975) = 4.302653, half width 4.302653 / sqrt(3) = 2.484138
    interval = two_way_interval(np.array([[1.0], [2.0], [3.0]]))
    assert interval.bounds() == pytest.approx((2 - 2.484138, 2 + 2.484138), abs=1e-6)
    # t = 2 / 0.57735 = 3.4641 with 2 degrees of freedom: p = 0.074180
    assert interval.p() == pytest.approx(0.0741801, abs=1e-6)


def test_interval_of_independent_seeds_is_welch():
    from scipy.stats import ttest_ind

    x, y = np.array([[1.0], [2.0], [4.0]]), np.array([[5.0], [1.0], [2.0], [9.0]])
    expected = ttest_ind(x[:, 0], y[:, 0], equal_var=False)
    assert two_way_interval(x, -y).p() == pytest.approx(expected.pvalue)


def test_interval_by_hand_over_seeds_and_problems():
    # seed and problem means 2, 5: A = B = 4.5 / 2; residuals +-1: C = 4 / (1 * 2 * 2)
    x = np.array([[1.5, 2.5], [2.5, 7.5]])
    interval = two_way_interval(x)
    assert interval.value == 3.5
    assert interval.stderr**2 == pytest.approx(2.25 + 2.25 - 1.0)
    # both A and var - A = 1.25 have one degree of freedom, so Banerjee's quantile is t_1
    assert interval.df == pytest.approx(1)
    # every problem twice, once in each of two benchmarks: A stays, B and C halve
    twice = two_way_interval(np.hstack([x, x]), strata=["a", "a", "b", "b"])
    assert twice.stderr**2 == pytest.approx(2.25 + 2.25 / 2 - 1.0 / 2)


def test_interval_refuses_one_seed_and_nan():
    with pytest.raises(UserError, match="one seed"):
        two_way_interval(np.ones((1, 4)))
    with pytest.raises(UserError, match="NaN"):
        two_way_interval(np.full((3, 4), np.nan))
    with pytest.raises(UserError, match="shape"):
        two_way_interval(np.ones((3, 4)), np.ones((3, 5)))


def test_no_end_of_a_difference_is_impossible():
    """SmolLM2: 84.4 % of the base model and a difference of 12.5 [-2.4, 27.4] were 111.8 %."""
    stderr = 14.88 / stdtrit(2, 0.975)
    above, below = (Interval(sign * 12.5, stderr, 2) for sign in (1, -1))
    assert above.of_difference(84.375) == pytest.approx((-2.38, 15.625))
    assert below.of_difference(15.625) == pytest.approx((-15.625, 2.38))
    assert above.of_difference(40) == pytest.approx(above.bounds())
    assert Interval(50, 1, 9).of_difference(50)[1] == 50  # everything is solved
    assert np.isnan(Interval(0.0, 0.0, 1.0).of_difference(40)).all()


def test_interval_without_spread():
    assert two_way_interval(np.full((5, 3), 0.1)) == Interval(pytest.approx(0.1), 0.0, 1.0)
    assert np.isnan(two_way_interval(np.full((5, 3), 0.1)).ends()).all()
    spread = two_way_interval(np.arange(6.0).reshape(3, 2))
    assert spread.ends() == spread.bounds()
    assert two_way_interval(np.full((5, 3), 0.1)).p() == 0
    assert two_way_interval(np.zeros((5, 3))).p() == 1
