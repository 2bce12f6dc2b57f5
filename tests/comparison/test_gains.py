from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up_runs import named

from common.claims.select import indexed
from common.comparison.cells import as_printed, with_sampling
from common.comparison.gains import COLUMNS, DRAWS, gains, printed_pairs, verdict
from common.comparison.published import published
from common.comparison.spec import Spec, spec_of
from common.config.files import ROOT, papers
from common.metrics.noise import SEED_SD, sampling_sd
from common.metrics.paired import Interval, subsampling_test
from common.metrics.passk import report

PLAIN = Spec(
    paper="p",
    title="P",
    own_rows=lambda root: [],
    gains=[("A", "B")],
    averages={"Avg": ["b", "c"]},
)
N = 64


def printed(a: float, b: float, benchmarks=("b", "c", "Avg"), ks=(1, 32)) -> pd.DataFrame:
    rows = [
        {"table": "t", "model": "m", "method": method, "benchmark": benchmark, "k": k}
        | {"metric": f"pass@{k}", "value": value, "unit": "percent", "printed": f"{value:.1f}"}
        for method, value in (("A", a), ("B", b))
        for benchmark in benchmarks
        for k in ks
    ]
    return pd.DataFrame(rows)


def counts(method: str, c, benchmark: str, seed: int = 1) -> pd.DataFrame:
    about = {"table": "t", "model": "m", "method": method, "benchmark": benchmark}
    ids = [f"{benchmark}{i}" for i in range(len(c))]
    table = pd.DataFrame({"problem_id": ids, "n": N, "c": c})
    return table.assign(**about, seed=seed, step=10)


def compared(spec: Spec, print_: pd.DataFrame, *tables: pd.DataFrame) -> pd.DataFrame:
    about = ["table", "model", "method", "seed", "step"]
    rows = pd.concat(
        report(one, [1, 32]).assign(**one.iloc[0][about].to_dict(), run_id=f"run {i}")
        for i, one in enumerate(tables)
    )
    both = pd.concat(tables, ignore_index=True)
    rows = with_sampling(rows.reset_index(drop=True), indexed(both))
    return gains(spec, print_, as_printed(spec, rows, named()), both)


def drawn(rng, rates, shift=0.0):
    return rng.binomial(N, np.clip(rates + shift, 0, 1))


@pytest.fixture(scope="module")
def rates():
    rng = np.random.default_rng(1)
    return {"b": rng.beta(1, 1, 40), "c": rng.beta(1, 2, 200)}


def test_a_gain_is_over_seeds_and_samples_and_has_two_tests(rates):
    rng = np.random.default_rng(2)
    c = {(m, b): drawn(rng, rates[b]) for m in "AB" for b in "bc"}
    table = compared(PLAIN, printed(40.0, 30.0), *(counts(m, c[m, b], b) for m, b in c))
    assert list(table.columns) == COLUMNS
    assert len(table) == 6
    one = table.set_index(["benchmark", "metric"]).loc[("b", "pass@1")]
    assert (one["printed"], one["n_seeds"], one["run_ids"]) == (10.0, 1, "run 0;run 2")
    samples = sum(sampling_sd(c[m, "b"], N, ("pass", 1)) ** 2 for m in "AB")
    run = (2 * SEED_SD["small k"] ** 2 + samples) ** 0.5
    assert one["rerun"] == pytest.approx(100 * (c["A", "b"] - c["B", "b"]).mean() / N)
    # a further pair has as much, and each printed number was rounded
    assert one["high"] - one["rerun"] == pytest.approx(1.96 * 2**0.5 * run + 0.1, abs=1e-3)
    assert one["mdd"] == pytest.approx((1.96 + 0.8416) * run, abs=1e-3)
    test = subsampling_test(
        *(c[m, "b"] for m in "AB"), n=N, ks=[1], m=N // 4, iterations=DRAWS, seed=0
    )
    assert one["p_samples"] == pytest.approx(test[0]["p"], abs=0.02)
    # an average: as likely to be lucky, and its samples' spread is that of a mean
    mean = table.set_index(["benchmark", "metric"]).loc[("Avg", "pass@1")]
    samples = sum(sampling_sd(c[m, b], N, ("pass", 1)) ** 2 for m in "AB" for b in "bc") / 4
    run = (2 * SEED_SD["small k"] ** 2 + samples) ** 0.5
    assert mean["mdd"] == pytest.approx((1.96 + 0.8416) * run, abs=1e-3)
    assert 0 < mean["p_samples"] <= 1


@pytest.mark.parametrize(
    ("printed", "value", "word"),
    [
        (6.0, 5.0, "agrees"),
        (2.0, 1.0, "cannot tell"),
        (6.0, 0.0, "smaller"),
        (3.0, 9.0, "larger"),
        (3.0, -4.0, "opposite"),
        (9.0, -0.5, "smaller"),  # of the other sign, but no different from 0
        (-3.0, 4.0, "opposite"),
        (0.0, 9.0, "larger"),
    ],
)
def test_the_verdict_compares_gains(printed, value, word):
    assert verdict(printed, value - 3.0, value + 3.0, Interval(value, 1.0, 1e6)) == word


def test_seeds_of_ones_own_count_next_to_what_is_known_of_them():
    """Three seeds of both: the paired differences' own spread, drawn towards the assumed one."""
    tables = [
        counts(m, [c + 8 * (m == "A") + seed * (m == "A")] * 4, "b", seed)
        for m, c in (("A", 20), ("B", 20))
        for seed in (1, 2, 3)
    ]
    one = compared(PLAIN, printed(45.0, 30.0, ("b",), (1,)), *tables).iloc[0]
    # differences 9, 10, 11 of 64: mean 15.625, sd 1.5625; t_8 sqrt(4/3), and rounding
    assert (one["n_seeds"], one["rerun"]) == (3, pytest.approx(15.625))
    samples = sum(sampling_sd(np.full(4, c), N, ("pass", 1)) ** 2 for c in (29, 20))
    variance = (6 * (2 * SEED_SD["small k"] ** 2 + samples) + 2 * 1.5625**2) / 8
    half = 2.306004 * (variance * 4 / 3) ** 0.5 + 0.1
    assert one["high"] == pytest.approx(15.625 + half, abs=1e-3)
    assert one["verdict"] == "agrees"


def test_problems_of_the_papers_own_count_and_what_was_not_run_says_so(rates):
    rng = np.random.default_rng(5)
    tables = [counts(m, drawn(rng, rates["b"]), "b") for m in "AB"]
    there = printed(40.0, 30.0, ("b", "c"), (1,))
    shared = compared(PLAIN, there, *tables).set_index("benchmark")
    own = compared(replace(PLAIN, own_problems={"b": 10}), there, *tables).set_index("benchmark")
    assert own["high"]["b"] > shared["high"]["b"] + 5
    assert shared["verdict"]["c"] == "not run"
    assert pd.isna(shared["rerun"]["c"])


@pytest.mark.parametrize("paper", papers())
def test_every_pair_of_a_spec_is_printed(paper):
    spec = spec_of(paper)
    pairs = printed_pairs(spec, published(ROOT / "papers" / paper / "published"))
    found = set(pairs[["method", "baseline"]].itertuples(index=False, name=None))
    unprinted = {(f"F-{x} (gamma=0.5)", x) for x in ("DAPO", "CISPO")}
    assert set(spec.gains) - found <= unprinted
    assert not pairs.duplicated(
        ["table", "model", "method", "baseline", "benchmark", "metric"]
    ).any()
