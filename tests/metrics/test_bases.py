"""Means over seeds that share base models."""

import numpy as np
import pytest

from common.metrics.bases import ACCURACY_SHARE, SHARE, base_seed, base_share, mean_over_bases

X = np.array([1.0, 4.0, 2.0, 8.0, 5.0])


def test_a_base_for_each_seed_is_the_plain_variance():
    assert mean_over_bases(X, range(5), 0.55) == pytest.approx((X.var(ddof=1) / 5, 4))


def test_one_base_for_all_is_known_from_the_share_alone():
    """sigma^2 = within / (1 - share); var = sigma^2 ((1 - share) / S + share)"""
    sigma2 = X.var(ddof=1) / (1 - 0.55)
    variance, df = mean_over_bases(X, [0] * 5, 0.55)
    assert variance == pytest.approx(sigma2 * (0.45 / 5 + 0.55))
    assert df == 4


def test_several_bases_are_unbiased():
    """The mean of the estimates is the variance of the means, with the share that is assumed."""
    rng, bases = np.random.default_rng(0), np.array([0, 0, 0, 0, 0, 1, 2, 1, 2])
    x = np.sqrt(0.55) * rng.normal(size=(20000, 3))[:, bases]
    x += np.sqrt(0.45) * rng.normal(size=(20000, 9))
    estimates = [mean_over_bases(one, bases, 0.55)[0] for one in x[:4000]]
    assert np.mean(estimates) == pytest.approx(x.mean(1).var(), rel=0.03)


def test_which_seeds_share_a_base():
    assert [base_seed(seed) for seed in range(1, 12)] == [0] * 5 + [1, 2, 1, 2] + [10, 11]


def test_accuracy_has_a_share_of_its_own():
    assert base_share(["pass@1", "pass@1"]) == ACCURACY_SHARE
    assert base_share(["pass@1", "pass@64"]) == base_share(["token_entropy"]) == SHARE
