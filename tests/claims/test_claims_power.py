"""No verdict from noise, at the sizes that reruns have; and what such sizes can show."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from common.claims.gaps import combine, row
from common.claims.judge import judge
from common.claims.select import Found
from common.metrics.bootstrap import clustered_bounds
from common.metrics.paired import Interval, subsampling_test


def methods(rng, *, seeds, problems, seed_sd, problem_sd, mean, n=16, effect=0.0):
    """Counts of two methods on the same problems: they differ by luck with problems and seeds, and
    by `effect` (logits)."""
    logit = rng.normal(mean, 2, problems) + problem_sd * rng.normal(size=(2, 1, problems))
    logit = logit + seed_sd * rng.normal(size=(2, seeds, 1))
    logit = logit + 0.3 * rng.normal(size=(2, seeds, problems))
    logit[0] += effect
    return rng.binomial(n, 1 / (1 + np.exp(-logit)))


def selected(c, n=16, seeds=None, **more):
    values = 100 * c / n
    names = tuple(("b", str(i)) for i in range(c.shape[1]))
    seeds = tuple(range(len(c))) if seeds is None else seeds
    more |= {"n": n, "by_problem": values, "problems": names}
    return Found("A", seeds, values.mean(axis=1), ("t",), **more)


@pytest.mark.sweep
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("problems", [30, 500])
def test_a_strict_ordering_of_equals_is_decided_once_in_twenty_at_most(seeds, problems, paired):
    rng, decided, draws = np.random.default_rng([seeds, problems]), 0, 0
    # luck with seeds alone, with both, and with problems that most samples get wrong
    for seed_sd, problem_sd, mean in ((0.3, 0, 0), (0.2, 0.5, 0), (0.1, 0.5, -3), (0.3, 0.5, -3)):
        for _ in range(80):
            a, b = methods(rng, seeds=seeds, problems=problems, seed_sd=seed_sd,
                           problem_sd=problem_sd, mean=mean)  # fmt: skip
            other = None if paired else tuple(range(100, 100 + seeds))
            gap = combine([(1, selected(a)), (-1, selected(b, seeds=other))])
            decided += gap.interval.p() < 0.05
            draws += 1
    assert decided / draws <= 0.05


@pytest.mark.sweep
def test_of_many_claims_of_one_family_one_in_twenty_families_decides_any():
    """The same noise in 12 claims of one family, 30 families."""
    rng, rows, claims = np.random.default_rng(1), [], []
    for table in range(30):
        for method in range(12):
            for side in "AB":
                for seed, value in enumerate(rng.normal(50, 1, 5)):
                    rows.append(
                        dict(table=f"t{table}", model="m", method=f"{side}{method}", benchmark="b",
                             metric="x", value=value, unit="points", seed=seed)
                    )  # fmt: skip
            order = [{"method": f"A{method}"}, {"method": f"B{method}"}]
            predicate = {"order": order, "relation": ">", "where": {"table": f"t{table}"}}
            claim = {"id": f"{table}-{method}", "claim": "", "source": "", "family": f"f{table}"}
            claims.append(claim | {"laptop": predicate})
    verdicts, gaps, _ = judge(claims, {"laptop": pd.DataFrame(rows)})
    decided = verdicts["laptop"].isin(["holds", "fails"])
    tables = verdicts["id"].str.split("-").str[0]
    assert decided.groupby(tables).any().mean() <= 0.1  # 30 tables: 5 % are 1.5 of them
    assert (gaps["p"] < 0.05).groupby(gaps["table"]).any().mean() > 0.3  # without it, far more
    assert (gaps["p_holm"] >= gaps["p"]).all()


def test_matched_readings_of_all_pairs_are_one_table():
    def table(*tables):
        one = Found("A", (1, 2, 3), np.ones(3), tables)
        return combine([(1, one), (-1, one)]).table

    assert table("t, A vs B at matched pass@1") == table("t, C vs D at matched pass@1")
    assert table("t, A vs B at matched pass@1") != table("t")


def test_the_detectable_difference_is_detected_four_times_in_five():
    rng, df, stderr = np.random.default_rng(2), 8, 1.5
    size = Interval(0.0, stderr, df).detectable()
    assert size == pytest.approx((student.ppf(0.975, df) + student.ppf(0.8, df)) * stderr)
    drawn = size / stderr + rng.normal(size=20_000)
    drawn /= np.sqrt(rng.chisquare(df, 20_000) / df)
    assert np.mean(abs(drawn) > student.ppf(0.975, df)) == pytest.approx(0.8, abs=0.03)


def test_bootstraps_over_problems_and_over_seeds():
    rng = np.random.default_rng(4)
    seeds, problems = rng.normal(0, 1, (40, 1)), rng.normal(0, 3, (1, 60))
    x = 5 + seeds + problems
    (low, high), (below, above) = clustered_bounds([x], strata=None, draws=4000, seed=0)
    half = 1.96 * problems.std() / np.sqrt(60)  # of a mean of 60 problems
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)
    assert (above - below) / 2 == pytest.approx(1.96 * seeds.std() / np.sqrt(40), rel=0.1)
    assert low < x.mean() < high
    # two benchmarks weigh the same, whatever their size
    strata = ["a"] * 59 + ["b"]
    (low, high), _ = clustered_bounds([x], strata=strata, draws=4000, seed=0)
    assert (low + high) / 2 == pytest.approx((x[:, :59].mean() + x[:, 59].mean()) / 2, abs=0.1)
    assert np.isnan(clustered_bounds([x[:, :1]], strata=None, draws=10, seed=0)[0]).all()


@pytest.mark.parametrize(("k", "known"), [(4, True), (8, True), (16, False)])
def test_app_i_is_told_where_there_are_twice_as_many_samples_as_k(k, known):
    rng = np.random.default_rng(5)
    a, b = methods(rng, seeds=3, problems=30, seed_sd=0.1, problem_sd=0.2, mean=-2, effect=0.5)
    sides = [selected(c, counts=c, n=16, k=k) for c in (a, b)]
    shown = row(combine([(1, sides[0]), (-1, sides[1])]), 0.0)
    if not known:
        assert np.isnan(shown["subsampling_p"])
        return
    test = subsampling_test(
        a.ravel(), b.ravel(), n=16, ks=[k], m=max(k, 4), iterations=2000, seed=0
    )
    assert shown["subsampling_p"] == test[0]["p"]
    assert (shown["n_seeds"], shown["n_problems"]) == (3, 30)
    assert shown["prompt_low"] < shown["difference"] < shown["prompt_high"]
    assert shown["seed_low"] < shown["difference"] < shown["seed_high"]
    assert shown["mdd"] > 0
