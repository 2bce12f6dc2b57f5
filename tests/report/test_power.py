"""What a rerun recognises: of the claims that the submitted table's rows decide, by power.csv."""

import pandas as pd
import pytest

from common.comparison.calibrate import KINDS, NONE, TRUE
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
@pytest.mark.parametrize("seeds", [1, 3])
def test_it_is_that_of_the_page_of_the_week(paper, table, part, seeds):
    stored = pd.read_csv(REFERENCE / "gpu_hours.csv").set_index(["paper", "part", "seeds"])
    found = settled(paper, runs_of(paper, table))
    found = found[(found["world"] == TRUE) & (found["seeds"] == seeds)]
    claims, recognised = stored.loc[(paper, part, seeds), ["claims", "recognised"]]
    assert len(found) == claims > 0
    assert found["holds"].mean() == pytest.approx(recognised)


@pytest.mark.parametrize(
    ("seeds", "rows"), [("1", "one seed per row"), ("3", "three seeds per row")]
)
def test_the_line_counts_the_tables_claims_and_what_is_said_wrongly(seeds, rows):
    runs = runs_of("f_grpo", "table1", seeds)
    found = settled("f_grpo", runs)
    found = found[found["seeds"] == int(seeds)]
    true = found.loc[found["world"] == TRUE, "holds"]
    false = found[(found["world"] == NONE) & ~found["truth"].isin(KINDS)]["holds"]
    (line,) = power("f_grpo", runs, "table1")
    assert f"{rows} recognise" in line
    assert f"{true.sum():.2g} of Table 1's {len(true)} claims" in line
    assert f"{false.sum():.2g} of the {len(false)} that are" in line
    assert true.sum() > 5 * false.sum()


def test_seeds_that_were_not_simulated_have_no_number():
    runs = runs_of("f_grpo", "table1", "4")
    assert power("f_grpo", runs, "table1")[0].endswith("(known: 1, 3, 5)")


def test_rows_that_decide_no_claim_have_no_line(tmp_path):
    assert power("f_grpo", runs_of("f_grpo", "table1", row="qwen15b_math_grpo"), "") == []
    assert power("f_grpo", runs_of("f_grpo", "table1"), "", tmp_path) == []  # no simulation


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
    assert "recognise" in second
    (line,) = power("over_sharpening", runs_of("over_sharpening", scale="cluster_bare"), "")
    assert " 18 of the rows" in line
