from math import exp

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import least_squares
from scipy.stats import betabinom, binomtest

from common.errors import UserError
from common.metrics.bootstrap import (
    holm,
    percentile_interval,
    resampled_means,
    wilson_interval,
)
from common.metrics.fits import BetaMixture, fit_beta, fit_power_law, power_law
from common.metrics.passk import pass_at_k
from common.metrics.report import from_counts, from_samples

KS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


# ---- bootstrap and Holm


def test_bootstrap_of_two_problems_by_hand():
    # values 0 and 1: the mean of two draws is 0, 1/2, 1 with chances 1/4, 1/2, 1/4
    means = resampled_means(np.array([[0.0, 10], [1, 20]]), draws=40_000, seed=0)
    shares = [(means[:, 0] == value).mean() for value in (0, 0.5, 1)]
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25], atol=0.01)
    np.testing.assert_allclose(
        means[:, 1], 10 + 10 * means[:, 0]
    )  # the same problems in each column
    assert (
        resampled_means(np.eye(3), draws=9, seed=1) == resampled_means(np.eye(3), draws=9, seed=1)
    ).all()
    assert (
        resampled_means(np.eye(3), draws=9, seed=1) != resampled_means(np.eye(3), draws=9, seed=2)
    ).any()


def test_a_bootstrap_interval_is_of_percentiles():
    bounds = percentile_interval(np.arange(1001.0)[:, None])
    np.testing.assert_allclose(bounds, [[25], [975]])
    thirds = resampled_means(np.full((70, 1), 100 / 3), draws=50, seed=0)
    assert np.isnan(percentile_interval(thirds)).all()  # they differ by rounding alone


def test_wilson_interval_is_scipys():
    for right, n in ((0, 30), (30, 30), (7, 30), (1, 1)):
        peer = binomtest(right, n).proportion_ci(method="wilson")
        assert wilson_interval(right / n, n) == pytest.approx((peer.low, peer.high), abs=1e-7)


def test_holm_by_hand():
    # sorted .01 .02 .03 .04 times 4 3 2 1: .04 .06 .06 .04, made to rise: .04 .06 .06 .06
    assert holm([0.04, 0.01, 0.03, 0.02]).tolist() == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]).tolist() == [1, 1]
    np.testing.assert_allclose(holm([0.01, np.nan, 0.02]), [0.02, np.nan, 0.02])  # two tests
    assert holm([]).tolist() == []
    with pytest.raises(UserError, match="must lie in 0"):
        holm([1.5])


# ---- the shifted power law


@pytest.mark.parametrize("truth", [(1.2, 0.5, 0.7), (3, 0.9, 5), (0.5, 0.3, -0.5), (2, 1.5, 20)])
def test_power_law_is_recovered(truth):
    assert power_law([1], 2, 0.5, 3)[0] == pytest.approx(exp(-1))  # exp(-2 / sqrt(4))
    np.testing.assert_allclose(fit_power_law(KS, power_law(KS, *truth))[0], truth, rtol=1e-4)


def test_power_law_is_the_least_squares_fit():
    rng = np.random.default_rng(0)
    for shape in ((0.4, 0.6), (0.2, 2), (2, 1), (0.6, 12)):
        c = rng.binomial(256, rng.beta(*shape, 300))
        curve = pass_at_k(c, 256, KS).mean(axis=0)

        def miss(x, curve=curve):
            return power_law(KS, np.exp(x[0]), np.exp(x[1]), np.expm1(x[2])) - curve

        peer = least_squares(miss, [0, -0.5, 0.5], xtol=1e-14, ftol=1e-14, gtol=1e-14)
        ours = ((power_law(KS, *fit_power_law(KS, curve)[0]) - curve) ** 2).sum()
        assert ours <= 2 * peer.cost * (1 + 1e-6)


def test_a_flat_curve_has_no_power_law():
    fitted = fit_power_law(KS, np.array([np.zeros(9), np.ones(9), power_law(KS, 1, 1, 1)]))
    assert np.isnan(fitted).all(axis=1).tolist() == [True, True, False]
    with pytest.raises(UserError, match="at least 4"):
        fit_power_law([1, 2, 4], np.full(3, 0.5))


# ---- Beta fits


def test_beta_mixture_against_scipy():
    two = BetaMixture(np.array([0.3, 0.7]), np.array([0.5, 4]), np.array([6, 1.5]))
    x = np.arange(17)
    expected = 0.3 * betabinom.pmf(x, 16, 0.5, 6) + 0.7 * betabinom.pmf(x, 16, 4, 1.5)
    np.testing.assert_allclose(two.pmf(16), expected, rtol=1e-9)


def test_beta_binomial_is_recovered():
    c = betabinom.rvs(16, 0.6, 1.8, size=40_000, random_state=0)
    fitted = fit_beta(np.bincount(c, minlength=17) / len(c))
    assert fitted.a[0] == pytest.approx(0.6, rel=0.05)
    assert fitted.b[0] == pytest.approx(1.8, rel=0.05)


@pytest.mark.parametrize("share", [[1, 0, 0], [0, 0, 1]])
def test_equal_solve_rates_have_no_shape(share):
    with pytest.raises(UserError, match="no shape"):
        fit_beta(np.array(share, float))


def test_bimodal_solve_rates_need_two_components():
    rng = np.random.default_rng(0)
    p = np.where(rng.random(40_000) < 0.6, rng.beta(0.8, 8, 40_000), rng.beta(6, 1, 40_000))
    c = rng.binomial(16, p)
    share = np.bincount(c, minlength=17) / len(c)
    one, two = (fit_beta(share, components=k) for k in (1, 2))
    assert two.weight[0] == pytest.approx(0.6, abs=0.03)
    means = two.a / (two.a + two.b)
    np.testing.assert_allclose(means, [0.8 / 8.8, 6 / 7], atol=0.02)
    assert ((two.pmf(16) - share) ** 2).sum() < 0.1 * ((one.pmf(16) - share) ** 2).sum()


# ---- the report


def counts(c, n=256, benchmark="b"):
    names = [f"p{i}" for i in range(len(c))]
    return pd.DataFrame({"benchmark": benchmark, "problem_id": names, "n": n, "c": c})


def test_report_of_counts_has_an_interval_over_problems():
    rows = from_counts(counts([0, 64, 256]), KS)
    assert rows["metric"].tolist() == [*(f"pass@{k}" for k in KS), "avg@256"]
    assert rows["value"].iloc[-1] == rows["value"].iloc[0] == pytest.approx(125 / 3)
    assert (rows["low"].iloc[[0, -1]] == 0).all()
    assert (rows["low"] < rows["value"]).all()
    assert (rows["value"] < rows["high"]).all()


@pytest.mark.parametrize(
    ("c", "ends"),
    [
        ([0] * 20, (0, 16.11)),  # Wilson for 20 trials
        ([256] * 20, (83.89, 100)),
        ([128] * 20, (29.93, 70.07)),
        ([256], (np.nan, np.nan)),
        ([100], (np.nan, np.nan)),
    ],
)
def test_equal_problems_have_a_width_and_one_problem_has_no_interval(c, ends):
    rows = from_counts(counts(c), [1])
    for row in rows.to_dict("records"):  # pass@1 and avg@256
        assert (row["low"], row["high"]) == pytest.approx(ends, abs=0.01, nan_ok=True)
    mixed = from_counts(counts([128, 256] * 10), [1, 256]).set_index("metric")
    assert (mixed["low"] < mixed["high"]).all()  # pass@256 is 100 for all
    assert mixed.loc["pass@256", "low"] == pytest.approx(83.89, abs=0.01)


def test_report_of_samples_by_hand():
    rows = pd.DataFrame(
        {
            "problem_id": ["p", "p", "q", "q"],
            "outcome": ["correct", "correct", "wrong", "unparsed"],
            "parsed": ["a", "a", "x", None],
            "log_prob": [-2.0, -4, -1, -1],
            "tokens": [2, 2, 1, 1],
        }
    )
    got = from_samples(rows, "b").set_index("metric")
    assert got["value"].to_dict() == pytest.approx(
        {"answer_entropy": 0.5, "token_entropy_per_response": 1.25}
    )
    assert got["n_problems"].tolist() == [2] * 2
    same = from_samples(rows.assign(parsed="a"), "b").set_index("metric")
    assert np.isnan(same.loc["answer_entropy", ["low", "high"]].astype(float)).all()  # no share
    missing = from_samples(rows.assign(log_prob=None, tokens=None), "b")
    assert missing["metric"].tolist() == ["answer_entropy"]
    raw = from_samples(rows.assign(log_prob=None, raw_log_prob=rows["log_prob"]), "b")
    assert raw["metric"].tolist() == ["answer_entropy", "token_nll_per_response"]
    assert raw["value"].iloc[-1] == 1.25
