"""The generated tables: stale where the committed results have changed."""

import pandas as pd
import pytest
from tiny import ROOT

from common.comparison.gains import against_base
from common.report import readme, verdicts
from rlvr_papers import docs

HOME, REFERENCE = ROOT / "papers", ROOT / "results" / "reference"


@pytest.mark.parametrize("file", ["README.md", "docs/evidence.md"])
def test_the_tables_are_those_of_the_committed_results(file):
    assert docs.pages()[file] == (ROOT / file).read_text(), "stale: make docs"


def test_the_figure_holds_every_papers_rows(tmp_path):
    papers = [
        verdicts.paper(name, HOME, REFERENCE / name) for name in verdicts.papers(HOME, REFERENCE)
    ]
    for paper in papers:
        (tmp_path / paper.name).mkdir()
        table = (REFERENCE / paper.name / "against_base.csv").read_bytes()
        (tmp_path / paper.name / "against_base.csv").write_bytes(table)
    readme.draw(papers, tmp_path)
    drawn = pd.read_csv(tmp_path / "overview.csv")
    pd.testing.assert_frame_equal(drawn, pd.read_csv(REFERENCE / "overview.csv"))
    assert set(drawn["paper"]) == {paper.name for paper in papers}


@pytest.mark.parametrize("seeds", [3, 1])
def test_a_method_is_compared_with_the_base_model_and_too_few_seeds_have_no_interval(seeds):
    rows = []
    for seed in range(1, seeds + 1):
        for method, value in (("base", 20.0), ("GRPO", 30.0 + seed), ("M", 25.0 + seed)):
            for benchmark, metric in (("natural", "pass@1"), ("rare", "pass@64")):
                row = {"table": "t", "method": method, "benchmark": benchmark, "metric": metric}
                row |= {"model": "m", "k": int(metric[5:]), "unit": "percent", "seed": seed}
                rows.append(row | {"step": 200, "value": value, "run_id": f"{method}{seed}"})
    about = {"against_base": {"table": "t", "methods": ["GRPO", "M"]}}
    found = against_base(about, pd.DataFrame(rows), None)
    mean = (seeds + 1) / 2
    assert found["difference"].tolist() == pytest.approx([10 + mean] * 2 + [5 + mean] * 2)
    assert found["low"].notna().all() == (seeds == 3)
    assert against_base({}, pd.DataFrame(rows), None).empty
