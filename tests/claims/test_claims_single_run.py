"""Claims on a cluster's rows: by what predicate, and what decides where there is one run a cell."""

import numpy as np
import pandas as pd
import pytest
from claim_rows import order, rows

from common.claims.file import load, predicate
from common.claims.judge import judge
from common.errors import UserError
from common.metrics.paired import over_problems, subsampling_test
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
    verdicts, gaps, _ = judge([claim], given, {"cluster": table}, averages)
    gaps = gaps[gaps["scope"] == "cluster"]
    return verdicts.iloc[0], None if gaps.empty else gaps.iloc[0]


def test_the_printed_predicate_judges_cluster_rows_unless_the_file_says_otherwise(tmp_path):
    frame, table = cluster(counts("A", [8, 6, 4]), counts("B", [8, 4, 4]))
    assert decided(CLAIM, frame, table)[0]["cluster"] == "holds"
    own = CLAIM | {"cluster": order("B", "A")}
    assert decided(own, frame, table)[0]["cluster"] == "fails"
    never, gap = decided(CLAIM | {"cluster": None}, frame, table)
    assert (never["cluster"], never["cluster_numbers"]) == ("not claimed here", "")
    assert gap is None
    assert predicate({"laptop": {}}, "cluster") is None
    path = tmp_path / "claims.yaml"
    path.write_text("- {id: a, claim: c, source: s, cluster: null}\n")
    assert load(path)[0]["cluster"] is None
    path.write_text("- {id: a, claim: c, source: s, laptop: null}\n")
    with pytest.raises(UserError, match="laptop is empty; leave it out"):
        load(path)


def test_a_single_run_is_decided_as_a_number_and_says_so_with_its_tests():
    # 75 against 66.67 percent; differences of the problems 0, 25, 0
    frame, table = cluster(counts("A", [8, 6, 4]), counts("B", [8, 4, 4]))
    verdict, gap = decided(CLAIM, frame, table)
    assert verdict["cluster"] == "holds"
    assert "single runs, decided as numbers; p 0.42 over problems" in verdict["cluster_numbers"]
    assert gap["test"] == "single run, over problems"
    # sd 14.43, stderr 8.333, t_2 = 1: p = 0.4226
    assert gap["p"] == pytest.approx(0.42265, abs=1e-4)
    assert np.isnan(gap["seed_low"])
    assert gap["prompt_low"] <= gap["difference"] <= gap["prompt_high"]
    alone, gap = decided(CLAIM, frame)
    assert "no counts to test on" in alone["cluster_numbers"]
    assert (alone["cluster"], gap["test"]) == ("holds", "single run, as a number")
    tie, _ = decided(CLAIM, *cluster(counts("A", [4]), counts("B", [4])))
    assert tie["cluster"] == "inconclusive"


def test_a_range_on_a_single_run_reads_the_number():
    frame, table = cluster(counts("A", [8, 6, 4]))
    claim = {key: CLAIM[key] for key in ("id", "claim", "source")}
    inside = claim | {"cluster": {"range": {"of": {"method": "A"}, "low": 74, "high": 76}}}
    assert decided(inside, frame, table)[0]["cluster"] == "holds"
    outside = claim | {"cluster": {"range": {"of": {"method": "A"}, "low": 76}}}
    assert decided(outside, frame, table)[0]["cluster"] == "fails"


def test_with_three_seeds_the_interval_decides():
    frame = pd.concat([rows({"A": [70.0, 60.0, 80.0], "B": [69.0, 61.0, 79.0]})])
    verdict, gap = decided(CLAIM, frame)
    assert verdict["cluster"] == "inconclusive"
    assert gap["test"] == "seeds"
    assert "single" not in verdict["cluster_numbers"]


def test_a_printed_average_is_tested_over_the_problems_of_its_benchmarks():
    a = [counts("A", [8, 6], "b1"), counts("A", [4, 4, 4], "b2")]
    b = [counts("B", [8, 4], "b1"), counts("B", [4, 4, 0], "b2")]
    frame, table = cluster(*a, *b)
    claim = CLAIM | {"cluster": order("A", "B", where={"benchmark": "Avg"})}
    verdict, gap = decided(claim, frame, table, {"Avg": ["b1", "b2"]})
    assert verdict["cluster"] == "holds"
    assert gap["benchmark"] == "Avg"
    assert gap["difference"] == pytest.approx((12.5 + 50 / 3) / 2)
    # b1: differences 0, 25, variance 312.5 / 2; b2: 0, 0, 50, variance 833.3 / 3; over 2^2
    variance = (312.5 / 2 + 2500 / 3 / 3) / 4
    low = over_problems(np.array([[0, 25, 0, 0, 50.0]]), strata=list("aabbb"))
    assert low.stderr == pytest.approx(variance**0.5)
    assert gap["p"] == pytest.approx(low.p())
    assert not np.isnan(gap["subsampling_p"])


def test_app_i_weighs_benchmarks_alike():
    c_a, c_b = np.array([8, 8, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 0])
    both = {"n": 16, "ks": [1], "m": 4, "iterations": 200, "seed": 0}
    one = subsampling_test(c_a, c_b, **both)[0]
    two = subsampling_test(c_a, c_b, **both, strata=list("aabbbb"))[0]
    assert one["a"] == pytest.approx(100 / 6)
    assert two["a"] == pytest.approx(25.0)
