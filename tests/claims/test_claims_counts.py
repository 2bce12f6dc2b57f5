"""Claims with counts of problems: no false verdicts, pairing, pass@k of any k."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from claim_rows import order, verdict
from refuses import refuses
from scipy.stats import t as student

from common.claims.gaps import combine, row
from common.claims.select import Found, indexed, select, tidy
from common.comparison.gains import subsampling_p
from common.metrics.paired import Interval, subsampling_test
from common.metrics.passk import pass_at_k


def draw_counts(rng, *, models, seeds, problems, seed_sd, problem_sd, n=16):
    """Rows and counts of two methods without a difference; each row has the mean of its counts."""
    shape = (models, 2, seeds, problems)
    logit = rng.normal(0, 2, (models, 1, 1, problems))
    logit = logit + rng.normal(0, problem_sd, (models, 2, 1, problems))
    logit = logit + rng.normal(0, seed_sd, (models, 2, seeds, 1)) + rng.normal(0, 0.3, shape)
    c = rng.binomial(n, 1 / (1 + np.exp(-logit)))
    model, method, seed, problem = (index.ravel() for index in np.indices(shape))
    counts = pd.DataFrame(
        {
            "table": "t",
            "model": [f"m{i}" for i in model],
            "method": np.array(["A", "B"])[method],
            "benchmark": "b",
            "seed": seed,
            "step": 9,
            "problem_id": problem,
            "n": n,
            "c": c.ravel(),
        }
    )
    keys = ["table", "model", "method", "benchmark", "seed", "step"]
    frame = counts.groupby(keys)["c"].mean().mul(100 / n).rename("value").reset_index()
    return frame.assign(metric="pass@1", k=1, unit="percent"), counts


@pytest.mark.sweep
def test_luck_with_problems_is_seen_through_by_counts_only():
    rng = np.random.default_rng(5)
    frame, counts = draw_counts(rng, models=15, seeds=5, problems=30, seed_sd=0, problem_sd=1.5)
    decided, of_model = [0, 0], dict(list(counts.groupby("model")))
    for model, rows in frame.groupby("model"):
        for j, table in enumerate((of_model[model], None)):
            decided[j] += verdict(order("A", "B"), rows, table)[0] != "inconclusive"
    assert decided[0] <= 1
    assert decided[1] >= 5


def test_counts_give_pass_at_k_of_any_k_and_must_agree_with_rows():
    rng = np.random.default_rng(0)
    frame, counts = draw_counts(rng, models=1, seeds=3, problems=40, seed_sd=0, problem_sd=0)
    counts["x"] = 100 * pass_at_k(counts["c"], 16, [4])[:, 0]
    keys = ["table", "model", "method", "benchmark", "seed", "step"]
    at_4 = counts.groupby(keys)["x"].mean().rename("value").reset_index()
    at_4 = at_4.assign(metric="pass@4", k=4, unit="percent")
    both = pd.concat([frame, at_4])
    decided = verdict(order("A", "B", where={"k": 4}), both, counts)
    assert "3 seeds x 40 problems" in decided[1]
    mean = counts[counts.method == "A"]["x"].mean()
    assert decided[1].startswith(f"{mean:.4g} ± ")
    share = at_4.assign(value=at_4["value"] / 100, unit="fraction")
    read = select("", {"method": "A"}, tidy(share), indexed(counts))
    assert read.by_problem == pytest.approx(counts["x"].to_numpy()[:120].reshape(3, 40) / 100)
    lacking = counts[1:]  # a problem of A's first seed
    assert select("", {"method": "A"}, tidy(at_4), indexed(lacking)).by_problem is None
    counts.loc[0, "c"] = 16 if counts.loc[0, "c"] < 2 else 0
    with refuses("method", "A"):
        verdict(order("A", "B", where={"k": 4}), both, counts)


def test_the_mean_of_several_steps_is_paired_by_seed_and_problem():
    rng = np.random.default_rng(5)
    parts = [
        draw_counts(rng, models=1, seeds=3, problems=20, seed_sd=0.1, problem_sd=0.1)
        for _ in range(3)
    ]
    frame = pd.concat([x.assign(step=i) for i, (x, _) in enumerate(parts)])
    counts = pd.concat([x.assign(step=i) for i, (_, x) in enumerate(parts)])
    frame = frame.drop(columns="model").assign(model="m", table="t")
    counts = counts.assign(model="m")
    mean = select("", {"method": "A", "step": [0, 1, 2]}, tidy(frame), indexed(counts))
    each = [select("", {"method": "A", "step": i}, tidy(frame), indexed(counts)) for i in range(3)]
    assert mean.values == pytest.approx(np.mean([x.values for x in each], axis=0))
    assert mean.by_problem == pytest.approx(np.mean([x.by_problem for x in each], axis=0))
    assert mean.counts is None  # of single runs' tests, which a mean of checkpoints has not
    assert each[0].counts is not None


def test_without_a_step_the_last_one_of_each_seed_is_read():
    """Seed 2 stops a step earlier; of pass@8 only the last step has enough samples."""
    steps = pd.DataFrame(
        {"step": range(4), "value": [10.0, 20, 30, 70], "n_samples": [4, 4, 4, 16]}
    )
    same = {"table": "t", "model": "m", "method": "A", "benchmark": "x", "unit": "percent"}
    runs = [steps.assign(seed=seed, run_id=f"a{seed}", metric="pass@1", k=1) for seed in (1, 2)]
    runs[1] = runs[1][:3]
    runs.append(runs[0][3:].assign(metric="pass@8", k=8, value=80.0))
    frame = tidy(pd.concat(runs).assign(**same))
    read = lambda **of: select("", of, frame, None).values.tolist()  # noqa: E731
    assert read(metric="pass@1") == [70, 30]
    assert read(metric="pass@1", seed=2) == [30]
    assert read(metric="pass@1", step=1) == [20, 20]
    assert read(metric="pass@8") == [80]
    assert read(metric=["pass@1", "pass@8"]) == [75]  # of seed 1, which has both
    toy = tidy(pd.concat(runs[:2]).assign(**same, run_id=None))
    assert select("", {"metric": "pass@1"}, toy, None).values.tolist() == [70, 30]


@pytest.mark.parametrize(("k", "known"), [(4, True), (8, True), (16, False)])
def test_app_i_is_told_where_there_are_twice_as_many_samples_as_k(k, known):
    rng = np.random.default_rng(5)
    rates, names = rng.beta(1, 1, 30), tuple(("b", str(i)) for i in range(30))
    sides = []
    for gain in (0.1, 0.0):
        c = rng.binomial(16, np.clip(rates + gain, 0, 1), (3, 30))
        more = {"by_problem": 100 * c / 16, "problems": names, "counts": c, "n": 16, "k": k}
        sides.append(Found("A", (0, 1, 2), 100 * c.mean(axis=1) / 16, ("t",), **more))
    if not known:
        assert np.isnan(subsampling_p(*sides))
        return
    both = [side.counts.ravel() for side in sides]
    test = subsampling_test(*both, n=16, ks=[k], m=max(k, 4), iterations=50_000, seed=0)
    assert subsampling_p(*sides) == test[0]["p"]
    shown = row(combine([(1, sides[0]), (-1, sides[1])]), 0.0)
    assert (shown["n_seeds"], shown["n_problems"]) == (3, 30)
    assert shown["low"] < shown["difference"] < shown["high"]
    assert shown["mdd"] > 0


def test_the_detectable_difference_is_detected_four_times_in_five():
    rng, df, stderr = np.random.default_rng(2), 8, 1.5
    size = Interval(0.0, stderr, df).detectable()
    drawn = size / stderr + rng.normal(size=20_000)
    drawn /= np.sqrt(rng.chisquare(df, 20_000) / df)
    assert np.mean(abs(drawn) > student.ppf(0.975, df)) == pytest.approx(0.8, abs=0.03)


def test_an_interval_ends_where_a_share_is_possible_and_has_a_width():
    """B has 1, 2 and 6 percent: A cannot be more than three points below it on average."""
    same = {"tables": ("t",), "benchmarks": ("b",)}
    b = Found("B", (1, 2, 3), np.array([1.0, 2.0, 6.0]), metrics=("pass@1",), **same)
    a = replace(b, values=np.array([1.0, 1.0, 1.0]))
    gap = combine([(1, a), (-1, b)])
    low, high = gap.interval.bounds()
    assert (gap.ends, low < -3) == ((-3.0, high), True)
    nats = [replace(x, metrics=("token_entropy",)) for x in (a, b)]
    assert combine([(1, nats[0]), (-1, nats[1])]).ends == (low, high)
    shown = row(combine([(1, a), (-1, a)]), 0.0)
    assert np.isnan([shown["low"], shown["high"]]).all()
    assert shown["p"] == 1
