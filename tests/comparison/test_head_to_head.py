"""The methods against GRPO and each other: pairs and differences by hand, the page's table."""

import pandas as pd
import pytest
from refuses import refuses
from tiny import ROOT

from common.claims.select import PER_PROBLEM
from common.comparison import head_to_head
from common.comparison.head_to_head import Method
from common.report.readme import papers

PAPERS, REFERENCE = ROOT / "papers", ROOT / "results" / "reference"


def method(name: str, by_seed: dict[int, float]) -> Method:
    """The value at steps 100 to 200, and another before."""
    rows = [
        {"table": "t", "model": "m", "method": name, "benchmark": b, "metric": metric, "k": 1}
        | {"value": value if step > 50 else 99.0, "unit": "percent", "seed": seed, "step": step}
        | {"run_id": f"{name}{seed}", "n_samples": 64}
        for b in ("natural", "rare")
        for metric in ("pass@1", "pass@64")
        for seed, value in by_seed.items()
        for step in (50, 100, 150, 200)
    ]
    return Method(name, (pd.DataFrame(rows), pd.DataFrame(columns=PER_PROBLEM)))


def test_differences_are_the_first_minus_the_second_on_shared_seeds():
    one = method("one", {1: 50.0, 2: 61.0, 3: 42.0, 4: 0.0})
    other = method("other", {1: 48.0, 2: 60.0, 3: 39.0})
    found = head_to_head.table([(one, other)])
    assert list(zip(found["benchmark"], found["metric"], strict=True)) == [*head_to_head.MEASURES]
    assert found["difference"].tolist() == pytest.approx([2.0] * 3)
    assert set(found["n_seeds"]) == {3}
    assert (found["low"] < 2).all()
    assert set(zip(found["a"], found["b"], strict=True)) == {("one", "other")}


def test_each_method_meets_its_baseline_and_each_other_one_once():
    names = ["two_stage", "f_grpo", "fade", "over_sharpening"]
    found = [(a.name, b.name) for a, b in head_to_head.pairs(names, PAPERS, REFERENCE)]
    focal = "F-GRPO (N=8, gamma=1)"
    assert found == [
        *(("GRPO-N", "GRPO"), (focal, "GRPO (N=8)"), ("FADE", "GRPO"), ("IAC", "GRPO")),
        *(("FADE", focal), ("IAC", focal), ("IAC", "FADE")),
    ]


def test_the_baselines_are_the_same_trainings():
    """At step 100: the last step's samples are drawn anew."""
    curves = []
    for paper in head_to_head.SHARED:
        rows, _ = head_to_head.methods(paper, PAPERS, REFERENCE)[0].side
        rows = rows[(rows["step"] == 100) & (rows["metric"] == "pass@64")]
        curves.append(rows.set_index(["benchmark", "seed"])["value"].rename(paper))
    both = pd.concat(curves, axis=1).dropna()
    assert len(both) == 14
    assert (both.nunique(axis=1) == 1).all()


def test_the_page_has_the_table_of_the_committed_results():
    text = (ROOT / "docs" / "testbeds.md").read_text()
    where = (papers(PAPERS, REFERENCE), PAPERS, REFERENCE)
    assert head_to_head.written(text, *where) == text, "stale: run .venv/bin/rlvr docs"
    with refuses("docs/testbeds.md", "marks"):
        head_to_head.written("# A page", *where)
