from itertools import combinations
from math import comb

import numpy as np
import pandas as pd
import pytest
from compositions import runs
from scipy.special import expit

from common.comparison.frontier import RATE
from common.comparison.gather import of_study
from common.config.files import ROOT
from common.evaluation.checkpoints import plateau_step
from common.metrics.noise import (
    LARGE,
    PEAK,
    SEED_SD,
    SEED_SHARE,
    problem_variance,
    sampling_sd,
    sampling_variance,
    seed_sd,
    shrunk,
)

RUNS = 12  # of one curve: 66 pairs
SCALE = "countdown"  # of the study


def pooled(frame: pd.DataFrame, by: list[str]) -> tuple[float, int]:
    """The variance within groups, and its degrees of freedom."""
    groups = frame.groupby(by)["value"]
    df = groups.size() - 1
    return float((groups.var(ddof=1).fillna(0) * df).sum() / df.sum()), int(df.sum())


def together(*parts: tuple[float, int]) -> float:
    return (sum(v * df for v, df in parts) / sum(df for _, df in parts)) ** 0.5


def printed(paper: str, table: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / "papers" / paper / "published" / f"{table}.csv")


def test_the_seeds_spread_is_what_print_and_our_own_seeds_bound():
    gammas = printed("f_grpo", "table6_v2")
    gammas = gammas[gammas["method"].str.startswith("F-")]
    gammas = gammas.assign(base=gammas["method"].str.extract("(GRPO|DAPO|CISPO)")[0])
    parts = {
        key: pooled(part, ["model", "base"])
        for key, part in gammas.groupby(["benchmark", "metric"])
    }
    for table in ("table2", "table3"):
        rest = printed("over_sharpening", table)
        rest = rest[(rest["method"] != "IAC") & (rest["benchmark"] == "Avg")]
        parts[table] = pooled(rest, ["model"])
    print({key: (round(v**0.5, 2), df) for key, (v, df) in parts.items()})
    math, ood = (parts[name, "pass@1"] for name in ("Avg_Math", "Avg_OOD"))
    small = together(math, ood, parts["table2"])
    large = together(parts["Avg_Math", "pass@256"], parts["Avg_OOD", "pass@256"])
    assert (round(small, 2), round(large, 2)) == (1.03, 2.09)
    assert parts["table3"][0] ** 0.5 == pytest.approx(0.47, abs=0.005)  # PASS@8, AVG@8: 0.48
    assert small == pytest.approx(SEED_SD["small k"], abs=0.1)
    assert large == pytest.approx(SEED_SD["large k"], abs=0.1)


def beside_the_base_model(wide: pd.DataFrame) -> tuple[np.ndarray, int]:
    """The variance of each method's runs, method by seed, that the seed's base model does not
    explain, and all their degrees of freedom."""
    x = wide.to_numpy()
    rest = x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()
    df = (x.shape[0] - 1) * (x.shape[1] - 1)
    return len(x) * (rest**2).sum(1) / df, df


@pytest.mark.sweep
def test_our_own_seeds_scatter_by_as_much():
    """The study's rows with nine seeds, after the last step."""
    stored, _ = of_study(ROOT / "results" / "reference", {x.label for x in runs("study", SCALE)})
    rows = stored.rows[stored.rows["table"] == RATE]
    rows = rows[rows["step"] == rows.groupby("run_id")["step"].transform("max")]
    found: dict[tuple, tuple] = {}
    for place, part in rows.groupby(["benchmark", "metric"]):
        wide = part.pivot_table("value", "method", "seed").dropna()
        assert len(wide) >= 10
        assert wide.shape[1] == 9
        found[place] = beside_the_base_model(np.log(wide) if place[1] == "token_entropy" else wide)
    by_row, _ = found["natural", "token_entropy"]
    pooled_rows = {place: (by.mean(), df) for place, (by, df) in found.items()}
    many = [(benchmark, f"pass@{k}") for benchmark in ("natural", "rare") for k in (64, 256)]
    small = together(pooled_rows["natural", "pass@1"])
    large = together(*(pooled_rows[place] for place in many))
    share = float(np.median(by_row)) ** 0.5  # that of CW-GRPO is ten times as large
    print([round(x, 2) for x in (small, large, share)])
    assert 1 <= small / SEED_SD["small k"] < 2
    assert 0.8 <= large / SEED_SD["large k"] < 1.5
    assert 0.03 < share < SEED_SHARE  # which is from more tables


def test_a_metric_has_the_spread_of_its_k():
    assert seed_sd("pass@1", 40.0) == seed_sd("AVG@8", 40.0) == SEED_SD["small k"]
    assert seed_sd("pass@256", 70.0) == SEED_SD["large k"]
    assert seed_sd(f"PASS@{LARGE}", 70.0) == seed_sd("pass@4096", 70.0) == SEED_SD["large k"]
    # log 8 is 3/8 of log 256, log 16 half of it
    assert (seed_sd("best@8", 70.0), seed_sd("pass@16", 70.0)) == pytest.approx((1.375, 1.5))
    assert seed_sd("token_entropy", -0.5) == pytest.approx(SEED_SHARE * 0.5)
    assert seed_sd("rank1_share", 96.0, "percent") == pytest.approx(2.0)  # half of what is left
    assert seed_sd("rank1_share", 40.0, "percent") == pytest.approx(4.0)


def test_an_estimate_is_drawn_towards_what_is_assumed():
    assert shrunk(9.0, 2, 1.0) == ((6 * 1 + 2 * 9) / 8, 8)


def peak_of(rng: np.random.Generator, time_constant: float) -> int:
    """The step of the peak of one run whose problems' logits rise by 1.5 and saturate."""
    start, done = np.random.default_rng(1).normal(-1.2, 2, 454), np.arange(1, 41) / 40
    rates = expit(start + 1.5 * (1 - np.exp(-done / time_constant))[:, None])
    key = {"step": np.repeat(np.arange(1, 41), 454), "problem_id": np.tile(np.arange(454), 40)}
    c = rng.binomial(8, rates).ravel()
    return plateau_step(pd.DataFrame(key | {"benchmark": "b", "n": 8, "c": c}), [1, 8])


@pytest.mark.sweep
def test_equal_curves_are_seldom_told_apart_by_the_step_of_their_peak():
    """The worst time constant that noise.py names, one evaluation."""
    rng = np.random.default_rng(0)
    steps = [peak_of(rng, 1 / 40) for _ in range(RUNS)]
    assert np.std(steps) > 0.3 * np.mean(steps)
    bounds = [
        (abs(a - b), 1.96 * 2**0.5 * seed_sd(PEAK, max(a, b))) for a, b in combinations(steps, 2)
    ]
    # 5 % of 66 pairs, and one pair for the draws
    assert np.mean([apart > bound for apart, bound in bounds]) <= 0.05 + 1 / len(bounds)


@pytest.mark.parametrize(("n", "k"), [(8, 1), (8, 4), (12, 3)])
def test_the_variance_over_samples_has_no_bias(n, k):
    p = 0.3
    chance = np.array([comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])
    passk = np.array([1 - comb(n - c, k) / comb(n, k) for c in range(n + 1)])
    true = chance @ passk**2 - (chance @ passk) ** 2
    assert chance @ sampling_variance(np.arange(n + 1), n, ("pass", k)) == pytest.approx(true)


def test_with_fewer_samples_than_twice_k_it_is_that_of_the_rate_found():
    # 1 - (1/2)^2 of two samples: pass@2 is 3/4
    assert sampling_variance([0, 1, 2], 2, ("pass", 2)) == pytest.approx([0, 3 / 16, 0])
    # best@2 of one right in two is 3/4, so 0, 3/4 or 1 with chances 1/4, 1/2, 1/4
    assert sampling_variance([1], 2, ("best", 2)) == pytest.approx([17 / 32 - (5 / 8) ** 2])
    assert sampling_variance([0, 1, 1, 1], 1, ("pass", 1)) == pytest.approx([3 / 16] * 4)
    assert sampling_sd([0, 1, 1, 1], 1, ("pass", 1)) == pytest.approx(100 * (3 / 16 / 4) ** 0.5)


def test_the_problems_variance_is_what_the_samples_do_not_explain():
    assert problem_variance(5.0, 3.0) == pytest.approx(16.0)
    assert problem_variance(3.0, 5.0) == 0
