import pandas as pd
import pytest
from tiny import ROOT

from common.claims.file import load
from common.comparison.published import published

PUBLISHED = ROOT / "papers" / "f_grpo" / "published"
CELL = ["model", "method", "benchmark", "metric"]


PRINTED = published(PUBLISHED)


def table(name: str) -> pd.DataFrame:
    return PRINTED[PRINTED["table"] == name]


@pytest.mark.parametrize(
    ("one", "other", "cells"),
    [
        ("table2", "table2_v2", 20),
        ("table3", "table10_v2", 88),
        ("table4", "table11_v2", 66),
        ("table2_v2", "table10_v2", 24),
        ("table3_v2", "table11_v2", 20),
        ("table6_v2", "table1_v2", 72),
        *((name, "table1_v2", 108) for name in ("table12_v2", "table13_v2", "table14_v2")),
    ],
)
def test_a_number_that_is_printed_twice_is_the_same(one, other, cells):
    pairs = table(one).merge(table(other), on=CELL)
    assert len(pairs) == cells
    assert (pairs["value_x"] == pairs["value_y"]).all()


def test_what_the_second_version_claims_reads_its_tables():
    """Each of its claims is told apart by its source and its tables."""
    stated = load(ROOT / "papers" / "f_grpo" / "claims.yaml")
    mine = [one for one in stated if one.id.startswith("v2_") and one.family != "added"]
    assert len(mine) == 23
    for claim in stated:
        second = claim.id.startswith("v2_")
        assert claim.source.startswith("v2 ") == second
        assert ("_v2" in str(claim.published)) == (claim in mine)


def test_no_run_with_invented_coefficients_decides_a_claim():
    claims = load(ROOT / "papers" / "f_grpo" / "claims.yaml")
    about = [claim for claim in claims if "DS-GRPO" in repr(claim.published)]
    assert {claim.id for claim in about} >= {"v2_ds_grpo_passk", "v2_ds_grpo_pass1"}
    for claim in claims:
        assert "DS-GRPO" not in repr([claim.laptop, claim.cluster])
