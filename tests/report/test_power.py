"""What a rerun recognises: of the claims that the submitted table's rows decide, by power.csv."""

from functools import cache
from types import SimpleNamespace

import pandas as pd
import pytest

from common.comparison.calibrate import KINDS, NONE, TRUE
from common.comparison.published import naming_runs
from common.config.files import REFERENCE
from common.report import power as page
from common.report.power import power, settled
from slurm import launch
from slurm.tables import Wanted, chosen


def rows_of(paper: str, table: str, seeds: int = 1) -> list[SimpleNamespace]:
    """The runs of a printed table's rows, with what is read of them: to compose them takes long."""
    cells = naming_runs(paper)
    rows = cells.loc[cells["table"] == table, ["of_table", "of_method", "model", "run"]]
    return seeds * [
        SimpleNamespace(
            table=row.of_table,
            label=row.of_method,
            model=SimpleNamespace(name=row.model),
            name=row.run.rpartition("/")[2],
            scope="cluster",
            optim=SimpleNamespace(steps=1),
        )
        for row in rows.drop_duplicates().itertuples()
    ]


@cache
def found_of(paper: str, table: str) -> pd.DataFrame:
    return settled(paper, rows_of(paper, table))


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(page, "settled", lambda *_: found_of("f_grpo", "table1"))


@pytest.mark.parametrize(
    ("paper", "table"), [("f_grpo", "table1"), ("over_sharpening", "table2"), ("fade", "table4")]
)
def test_it_is_that_of_the_page_of_the_week(paper, table):
    stored = pd.read_csv(REFERENCE / "gpu_hours.csv").set_index(["paper", "part", "seeds"])
    true = found_of(paper, table).query("world == @TRUE")
    for seeds in (1, 3):
        found = true[true["seeds"] == seeds]
        claims, recognised = stored.loc[(paper, table, seeds), ["claims", "recognised"]]
        assert len(found) == claims > 0
        assert found["holds"].mean() == pytest.approx(recognised)


@pytest.mark.parametrize(("seeds", "rows"), [(1, "one seed per row"), (3, "three seeds per row")])
def test_the_line_counts_the_tables_claims_and_what_is_said_wrongly(seeds, rows, quick):
    found = found_of("f_grpo", "table1")
    found = found[found["seeds"] == seeds]
    true = found.loc[found["world"] == TRUE, "holds"]
    false = found[(found["world"] == NONE) & ~found["truth"].isin(KINDS)]["holds"]
    (line,) = power("f_grpo", rows_of("f_grpo", "table1", seeds), "table1")
    assert f"{rows} recognise" in line
    assert f"{true.sum():.2g} of Table 1's {len(true)} claims" in line
    assert f"{false.sum():.2g} of the {len(false)} that are" in line
    assert true.sum() > 5 * false.sum()


def test_seeds_that_were_not_simulated_have_no_number(quick):
    (line,) = power("f_grpo", rows_of("f_grpo", "table1", seeds=4), "table1")
    assert line.endswith("(known: 1, 3, 5)")


def test_rows_that_decide_no_claim_have_no_line(tmp_path):
    runs = rows_of("cov_grpo", "table2")
    assert len(power("cov_grpo", runs, "")) == 1
    assert power("cov_grpo", runs[:1], "") == []
    assert power("cov_grpo", runs, "", tmp_path) == []  # no simulation


@pytest.mark.parametrize(
    ("paper", "scale", "said"),
    [
        ("over_sharpening", "cluster", ["1 of the rows (qwen3_8b_filter_batch)", "recognise"]),
        ("cov_grpo", "cluster_repository", ["(distill15b_cw_grpo_repository)"]),
        ("two_stage", "cluster_long", []),  # of no printed cell, but of claims
    ],
)
def test_rows_that_no_claim_and_no_cell_is_of_are_named(paper, scale, said):
    runs = chosen(paper, launch.tables_of(paper), Wanted(scale=scale)).runs
    for line, words in zip(power(paper, runs, ""), said, strict=True):
        assert words in line
