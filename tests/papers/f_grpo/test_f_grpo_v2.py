"""F-GRPO's second version as typed: its tables agree with each other, and with the first's."""

import numpy as np
import pandas as pd
import pytest
from claim_rows import verdicts
from tiny import ROOT

from common.claims import judge
from common.claims.file import load
from common.comparison.published import published

PUBLISHED = ROOT / "papers" / "f_grpo" / "published"
MATH = ["AIME24", "AIME25", "AMC", "MATH500", "Minerva", "Olympiad"]
OOD = ["IFEval", "SynLogic", "GPQA"]
CELL = ["model", "method", "benchmark", "metric"]
LADDERS = {
    "table12_v2": "Qwen2.5-7B",
    "table13_v2": "Qwen3-4B-Base",
    "table14_v2": "Llama-3.2-3B-Instruct",
}


PRINTED = published(PUBLISHED)


def table(name: str) -> pd.DataFrame:
    return PRINTED[PRINTED["table"] == name]


def both(one: str, other: str, key=CELL) -> pd.DataFrame:
    return table(one).merge(table(other), on=key)


@pytest.mark.parametrize("name", ["table1_v2", "table10_v2", "table11_v2"])
def test_averages_recompute(name):
    """Both are rounded to 0.1: they may be 0.1 apart."""
    wide = table(name).pivot_table(
        index=["model", "method", "metric"], columns="benchmark", values="value"
    )
    assert wide.notna().all(axis=None)
    for average, members in (("Avg_Math", MATH), ("Avg_OOD", OOD)):
        assert (wide[members].mean(axis=1) - wide[average]).abs().max() < 0.1 - 1e-9


@pytest.mark.parametrize(
    ("one", "other", "cells"),
    [
        ("table2", "table2_v2", 20),
        ("table3", "table10_v2", 88),
        ("table4", "table11_v2", 66),
        ("table2_v2", "table10_v2", 24),
        ("table3_v2", "table11_v2", 20),
        ("table6_v2", "table1_v2", 72),
        *((name, "table1_v2", 108) for name in LADDERS),
    ],
)
def test_a_number_that_is_printed_twice_is_the_same(one, other, cells):
    pairs = both(one, other)
    assert len(pairs) == cells
    assert (pairs["value_x"] == pairs["value_y"]).all()


@pytest.mark.parametrize("name", LADDERS)
def test_ladders_rise_with_k(name):
    wide = table(name).pivot_table(
        index=["model", "method", "benchmark"], columns="k", values="value"
    )
    assert list(wide.columns) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert set(wide.index.get_level_values("model")) == {LADDERS[name]}
    assert len(wide) == 6 * 9
    assert (np.diff(wide.to_numpy(), axis=1) > 0).all()


def test_the_gamma_sweep_has_every_exponent_once():
    swept = table("table6_v2")
    exponents = swept["note"].str.extract(r"gamma = ([\d.]+)")[0].astype(float)
    assert set(exponents) == {0, 0.5, 1, 2}
    assert (swept.groupby(["model", "benchmark", "metric"]).size() == 12).all()
    chosen = swept[swept["note"].str.contains("selected")]
    assert set(chosen["method"]) == {"F-GRPO", "F-DAPO", "F-CISPO"}
    # App. L.3: the best by math pass@1
    math = swept[(swept["benchmark"] == "Avg_Math") & (swept["metric"] == "pass@1")]
    math = math[exponents[math.index] > 0]
    bases = math["method"].str.removeprefix("F-").str.split(" ").str[0]
    for _, group in math.groupby([math["model"], bases]):
        best = group.loc[group["value"].idxmax()]
        assert "selected" in best["note"]


def test_what_the_second_version_claims_is_as_its_tables_say():
    """Each of its claims is told apart by its source and its tables, and holds there."""
    stated = judge.load(ROOT / "papers" / "f_grpo" / "claims.yaml")
    mine = [one for one in stated if one.id.startswith("v2_") and one.family != "added"]
    assert len(mine) == 23
    decided = verdicts(mine, {"published": published(PUBLISHED)}).set_index("id")
    assert decided["published"].to_dict() == {claim.id: "holds" for claim in mine}
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
