"""Claims on a cluster's rows: by what predicate, and what decides where there is one run a cell."""

import numpy as np
import pandas as pd
import pytest
from claim_rows import order, rows
from refuses import refuses

from common.claims.file import claim_of, load
from common.claims.judge import judge
from common.claims.single import ONE_RUN
from common.metrics.noise import SEED_SD
from common.metrics.paired import Interval, over_problems
from common.metrics.passk import report

CLAIM = {"id": "x", "claim": "A above B", "source": "Table 1", "published": order("A", "B")}


def counts(method: str, c: list[int], benchmark: str = "b", n: int = 8) -> pd.DataFrame:
    names = {"table": "t", "model": "m", "method": method, "benchmark": benchmark, "seed": 1}
    ids = [f"{benchmark}{i}" for i in range(len(c))]
    return pd.DataFrame({"problem_id": ids, "n": n, "c": c}).assign(**names, step=10)


def cluster(*tables: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(rows, counts) of single runs."""
    about = ["table", "model", "method", "seed", "step"]
    frames = [
        report(table, [1]).assign(**table.iloc[0][about].to_dict(), run_id="r") for table in tables
    ]
    return pd.concat(frames), pd.concat(tables)


def decided(claim: dict, frame, table=None, averages=None):
    given = {"published": rows({"A": 70.0, "B": 60.0}), "cluster": frame}
    verdicts, gaps, _ = judge([claim_of(claim)], given, {"cluster": table}, averages)
    gaps = gaps[gaps["scope"] == "cluster"]
    return verdicts.iloc[0], None if gaps.empty else gaps.iloc[0]


def test_the_printed_predicate_judges_cluster_rows_unless_the_file_says_otherwise(tmp_path):
    frame, table = cluster(counts("A", [8, 7, 7]), counts("B", [3, 3, 2]))
    assert decided(CLAIM, frame, table)[0]["cluster"] == "holds"
    own = CLAIM | {"cluster": order("B", "A")}
    assert decided(own, frame, table)[0]["cluster"] == "fails"
    never, gap = decided(CLAIM | {"cluster": None}, frame, table)
    assert (never["cluster"], never["cluster_numbers"]) == ("not claimed here", "")
    assert gap is None
    there = {name: CLAIM[name] for name in ("id", "claim", "source")}
    assert claim_of(there | {"laptop": order("A", "B")}).cluster is None
    path = tmp_path / "claims.yaml"
    path.write_text("- {id: a, claim: c, source: s, cluster: null}\n")
    assert load(path)[0].cluster is None
    path.write_text("- {id: a, claim: c, source: s, laptop: null}\n")
    with refuses("laptop: predicate", "None"):
        load(path)


def test_a_sign_alone_decides_nothing():
    """0.2 points ahead on 500 problems of 64 samples, and how far ahead it would have to be."""
    rng = np.random.default_rng(0)
    a = rng.binomial(64, rng.beta(1, 1, 500))
    a[a == 64] -= 1
    few = np.arange(500) % 78 == 0  # 7 of 32,000 more: 0.2 points are 64
    b = a.copy()
    b[few] -= np.minimum(a[few], 9)
    verdict, gap = decided(CLAIM, *cluster(counts("A", a, n=64), counts("B", b, n=64)))
    assert 0.1 < gap["difference"] < 0.3
    assert (verdict["cluster"], gap["verdict"]) == (ONE_RUN, ONE_RUN)
    # two runs' seeds, and little over problems, for nearly all are the same
    least = (1.96 + 0.8416) * np.sqrt(2) * SEED_SD["small k"]
    assert gap["mdd"] == pytest.approx(least, rel=0.02)
    assert f"detectable {gap['mdd']:.2g}" in verdict["cluster_numbers"]
    for ahead, word in ((2.5, ONE_RUN), (6.0, "holds"), (-6.0, "fails")):
        far = cluster(counts("A", a, n=64), counts("B", a, n=64))[0]
        far["value"] += (far["method"] == "A") * ahead
        assert decided(CLAIM, far.assign(stderr=0.0))[0]["cluster"] == word


def test_a_single_runs_interval_is_over_problems_and_seeds():
    # 75 against 66.67 percent; differences of the problems 0, 25, 0: sd 14.43, stderr 8.333
    frame, table = cluster(counts("A", [8, 6, 4]), counts("B", [8, 4, 4]))
    verdict, gap = decided(CLAIM, frame, table)
    assert verdict["cluster"] == ONE_RUN
    assert gap["test"] == "single run, over problems and seeds"
    variance = 8.3333**2 + 2 * SEED_SD["small k"] ** 2
    df = variance**2 * 2 / 8.3333**4
    assert gap["p"] == pytest.approx(Interval(gap["difference"], variance**0.5, df).p(), rel=1e-3)
    assert gap["low"] < gap["difference"] < gap["high"]
    alone, gap = decided(CLAIM, frame)  # without counts: their standard errors, unpaired
    errors = (frame["stderr"] ** 2).sum() + 2 * SEED_SD["small k"] ** 2
    assert gap["p"] == pytest.approx(Interval(gap["difference"], errors**0.5, 1e6).p(), rel=1e-4)
    assert (alone["cluster"], gap["test"]) == (ONE_RUN, "single run, over samples and seeds")
    tie, _ = decided(CLAIM, *cluster(counts("A", [4]), counts("B", [4])))
    assert tie["cluster"] == ONE_RUN


def test_models_that_were_not_trained_have_no_seed():
    frame, _ = cluster(counts("A", [8, 6, 4]), counts("B", [8, 4, 4]))
    frame = frame.assign(stderr=0.5, value=[52.0, 50.0])
    assert decided(CLAIM, frame)[0]["cluster"] == ONE_RUN  # 2 points, of 1.96 sqrt(2.5)
    assert decided(CLAIM, frame.assign(step=0))[0]["cluster"] == "holds"


def test_an_average_over_benchmarks_has_its_runs_seed_once():
    """It has no less of it: a run that was lucky was lucky on all."""
    sets = [f"b{i}" for i in range(9)]
    one = pd.concat([rows({"A": [52.5], "B": [50.0]}, benchmark=name, step=1) for name in sets])
    one = one.assign(stderr=0.0, n_problems=30, run_id="r")
    claim = CLAIM | {"cluster": order("A", "B", where={"benchmark": sets})}
    verdict, gap = decided(claim, one)
    assert verdict["cluster"] == ONE_RUN
    assert gap["mdd"] == pytest.approx((1.96 + 0.8416) * np.sqrt(2), rel=1e-3)
    # two models are two runs a side
    several = pd.concat([one, one.assign(model="m2")])
    claim = CLAIM | {"cluster": order("A", "B", where={"benchmark": sets, "model": ["m", "m2"]})}
    assert decided(claim, several)[1]["mdd"] == pytest.approx(gap["mdd"] / 2**0.5)


@pytest.mark.parametrize(
    ("gain", "word"),
    [
        (2.5, ONE_RUN),  # as printed, and one run cannot tell it from nothing
        (6.5, ONE_RUN),  # nor from half of it: 2.5 are not 1.96 x 1.44
        (8.0, "holds"),
        (8.6, "holds"),  # better than printed, within noise
        (-0.1, "fails"),
        (13.0, "fails"),
    ],
)
def test_a_size_has_the_noise_of_both_runs_not_the_rounding(gain, word):
    frame, _ = cluster(counts("A", [8, 6, 4]), counts("B", [8, 4, 4]))
    frame = frame.assign(stderr=0.2, value=[50.0 + gain, 50.0])
    printed = 8.0 if gain != 2.5 else 2.5
    pair = {"a": {"method": "A"}, "b": {"method": "B"}}
    size = {"difference": pair | {"relation": "~", "value": printed, "within": 0.05}}
    assert decided(CLAIM | {"cluster": size}, frame)[0]["cluster"] == word


@pytest.mark.parametrize(
    ("low", "high", "word"),
    # 75 ± 1.96 of the rerun; the bounds are 1.96 wider on each side
    [
        *((75, 76, "holds"), (74.9, 90, "holds")),
        *((76, 90, ONE_RUN), (78.8, 90, ONE_RUN)),
        *((79, 90, "fails"), (60, 71, "fails")),
    ],
)
def test_a_level_is_as_uncertain_as_one_run(low, high, word):
    frame, table = cluster(counts("A", [8, 6, 4]))
    level = {"range": {"of": {"method": "A"}, "low": low, "high": high}}
    verdict, gap = decided(CLAIM | {"cluster": level}, frame.assign(sampling=0.0), table)
    assert verdict["cluster"] == word
    assert gap["low"] == pytest.approx(75 - 1.96, abs=1e-3)


def test_a_printed_average_is_tested_over_the_problems_of_its_benchmarks():
    a = [counts("A", [8, 6], "b1"), counts("A", [4, 4, 4], "b2")]
    b = [counts("B", [8, 4], "b1"), counts("B", [4, 4, 0], "b2")]
    frame, table = cluster(*a, *b)
    claim = CLAIM | {"cluster": order("A", "B", where={"benchmark": "Avg"})}
    verdict, gap = decided(claim, frame, table, {"Avg": ["b1", "b2"]})
    assert verdict["cluster"] == ONE_RUN
    assert gap["benchmark"] == "Avg"
    assert gap["difference"] == pytest.approx((12.5 + 50 / 3) / 2)
    # b1: differences 0, 25, variance 312.5 / 2; b2: 0, 0, 50, variance 833.3 / 3; over 2^2
    variance = (312.5 / 2 + 2500 / 3 / 3) / 4
    low = over_problems(np.array([[0, 25, 0, 0, 50.0]]), strata=list("aabbb"))
    assert low.stderr == pytest.approx(variance**0.5)
    total = variance + 2 * SEED_SD["small k"] ** 2
    whole = Interval(low.value, total**0.5, total**2 * low.df / variance**2)
    assert gap["p"] == pytest.approx(whole.p())


def test_two_shares_of_one_run_do_not_cancel():
    """A - B of one run's numbers, each with a spread of a tenth: 11.5 - 0.6 has 1.15 of it."""
    frame = rows({"A": [11.5], "B": [11.5]}, step=1).assign(stderr=0.0, run_id="r")
    frame = frame.assign(metric="covariance", unit="nats", method="M", benchmark=["top", "rest"])
    frame["value"] = [11.5, 0.6]
    sides = [{"benchmark": name} for name in ("top", "rest")]
    claim = CLAIM | {"cluster": {"order": sides, "relation": ">"}}
    _, gap = decided(claim, frame)
    assert gap["mdd"] == pytest.approx((1.96 + 0.8416) * (1.15 - 0.06), rel=1e-3)


def test_the_spread_of_three_runs_is_drawn_towards_the_assumed_one():
    frame = pd.concat([rows({"A": [52.0, 52.2, 52.1]}, step=1), rows({"B": [50.0] * 3}, step=0)])
    frame = frame.assign(stderr=0.0, run_id="r")
    _, gap = decided(CLAIM, frame)
    assumed = SEED_SD["small k"] ** 2
    variance = (6 * assumed + 2 * 0.01) / 8
    assert gap["p"] == pytest.approx(Interval(2.1, (variance / 3) ** 0.5, 8).p(), rel=1e-6)
    told = {
        factor: judge([claim_of(CLAIM)], {"cluster": frame}, spread=factor)[0]["cluster"][0]
        for factor in (0.5, 1.0, 2.0)
    }
    assert told == {0.5: "holds", 1.0: "holds", 2.0: "inconclusive"}


def test_an_average_in_a_list_weighs_as_much_as_the_set_beside_it():
    a = [counts("A", [8, 6], "b1"), counts("A", [4, 4, 4], "b2"), counts("A", [8, 2], "c")]
    b = [counts("B", [8, 4], "b1"), counts("B", [4, 4, 0], "b2"), counts("B", [4, 2], "c")]
    frame, table = cluster(*a, *b)
    means = frame[frame["benchmark"] != "c"].groupby("method", as_index=False)["value"].mean()
    one = frame[frame["benchmark"] == "b1"].drop(columns="value").merge(means, on="method")
    frame = pd.concat([frame, one.assign(benchmark="Avg")])
    claim = CLAIM | {"cluster": order("A", "B", where={"benchmark": ["Avg", "c"]})}
    _, gap = decided(claim, frame, table, {"Avg": ["b1", "b2"]})
    average = (12.5 + 50 / 3) / 2
    assert gap["difference"] == pytest.approx((average + 25) / 2)
    assert (gap["n_problems"], gap["test"]) == (7, "single run, over problems and seeds")
    # b1, b2 and c have the weights 1/4, 1/4 and 1/2; c's differences are 50, 0
    parts = [(312.5 / 2 / 16, 1), (2500 / 3 / 3 / 16, 2), (1250 / 2 / 4, 1)]
    total = sum(part for part, _ in parts) + 2 * SEED_SD["small k"] ** 2
    df = total**2 / sum(part**2 / df for part, df in parts)
    assert gap["p"] == pytest.approx(Interval(gap["difference"], total**0.5, df).p())
