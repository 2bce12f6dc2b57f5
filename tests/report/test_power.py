"""What a rerun settles: of the claims that the submitted table's rows decide, by power.csv."""

import pandas as pd
import pytest

from common.config.files import REFERENCE
from common.report.power import power, settled, unread
from slurm import launch
from slurm.tables import Wanted, chosen


def runs_of(paper: str, table: str = "", seeds: str = "1", **which):
    wanted = Wanted(table=table, seeds=seeds, **which)
    return chosen(paper, launch.tables_of(paper), wanted).runs


@pytest.mark.parametrize(
    ("paper", "table", "part"),
    [("f_grpo", "table1", "table1"), ("over_sharpening", "table2", "table2"), ("fade", "", "all")],
)
def test_it_is_that_of_the_page_of_the_week(paper, table, part):
    stored = pd.read_csv(REFERENCE / "gpu_hours.csv").set_index(["paper", "part", "seeds"])
    found = settled(paper, runs_of(paper, table))
    claims, decided = stored.loc[(paper, part, 1), ["claims", "decided"]]
    assert len(found[found["seeds"] == 1]) == claims
    assert found.loc[found["seeds"] == 1, "decided"].mean() == pytest.approx(decided)


def test_the_line_counts_the_tables_claims_and_those_that_never_settle():
    runs = runs_of("f_grpo", "table1")
    shares = settled("f_grpo", runs)["decided"]
    (line,) = power("f_grpo", runs, "table1")
    assert f"settles {shares.sum():.2g} of Table 1's {len(shares)} claims" in line
    assert f"; {sum(shares == 0)} are never" in line


def test_seeds_that_were_not_simulated_have_no_number():
    runs = runs_of("f_grpo", "table1", "3")
    assert power("f_grpo", runs, "table1")[0].endswith("(known: 1)")


def test_rows_that_decide_no_claim_have_no_line(tmp_path):
    assert power("f_grpo", runs_of("f_grpo", "table1", row="qwen15b_math_grpo"), "") == []
    assert power("f_grpo", runs_of("f_grpo", "table1"), "", tmp_path) == []  # no simulation
    assert power("f_grpo", runs_of("f_grpo", scale="gpu"), "") == []  # not a cluster's rows


@pytest.mark.parametrize(
    ("paper", "scale", "names"),
    [
        ("over_sharpening", "cluster", {"qwen3_8b_filter_batch"}),
        ("cov_grpo", "cluster_repository", {"distill15b_cw_grpo_repository"}),
        ("two_stage", "cluster_long", set()),  # of no printed cell, but of claims
        ("fade", "cluster_fig14", {"qwen7b_asym_05", "qwen7b_grpo"}),
    ],
)
def test_rows_that_no_claim_and_no_cell_is_of_are_named(paper, scale, names):
    runs = runs_of(paper, scale=scale)
    found = unread(paper, runs)
    assert names <= set(found)
    assert len(found) < len(runs) or scale in ("cluster_repository", "cluster_fig14")
    lines = power(paper, runs, "")
    assert [f" {len(found)} of the rows" in line for line in lines[:1]] == [True] * bool(found)


def test_two_lines_where_some_rows_are_read():
    first, second = power("over_sharpening", runs_of("over_sharpening", scale="cluster"), "")
    assert "(qwen3_8b_filter_batch)" in first
    assert "settle" in second
    (line,) = power("over_sharpening", runs_of("over_sharpening", scale="cluster_bare"), "")
    assert " 18 of the rows" in line
