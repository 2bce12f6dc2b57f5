"""The README's table and figure: from the committed tables, and stale where these have changed."""

import shutil

import pandas as pd
import pytest
from refuses import refuses
from tiny import ROOT

from common.claims.file import read
from common.comparison.against_base import against_base
from common.report import page, readme

PAPERS, REFERENCE = ROOT / "papers", ROOT / "results" / "reference"


def test_the_readme_says_what_the_committed_tables_say():
    text = (ROOT / "README.md").read_text()
    assert readme.written(text, PAPERS, REFERENCE) == text, "stale: run .venv/bin/rlvr docs"
    rows = text.split(readme.START)[1].split(readme.END)[0].strip().splitlines()[2:]
    assert len(rows) == len(readme.papers(PAPERS, REFERENCE)) == 5


@pytest.mark.sweep
def test_the_committed_page_is_what_the_committed_tables_give():
    made, left_out = page.build(REFERENCE, reference=REFERENCE, folder=ROOT / "docs")
    assert left_out == []
    stored = (ROOT / "docs" / "page.html").read_text()
    assert made == stored, "stale: run .venv/bin/rlvr docs"


def test_a_page_without_marks_is_refused():
    with refuses("README.md", "marks"):
        readme.written("# A page", PAPERS, REFERENCE)


def test_the_figure_holds_every_papers_rows(tmp_path):
    for paper in readme.papers(PAPERS, REFERENCE):
        table = readme.against_base(paper, REFERENCE)
        (tmp_path / paper).mkdir()
        table.to_csv(tmp_path / paper / "against_base.csv", index=False)
    readme.draw(PAPERS, tmp_path)
    drawn = (tmp_path / "overview.csv").read_bytes()
    assert drawn == (REFERENCE / "overview.csv").read_bytes(), "stale: run .venv/bin/rlvr docs"
    assert set(pd.read_csv(tmp_path / "overview.csv")["paper"]) == set(
        readme.papers(PAPERS, REFERENCE)
    )


def test_verdicts_are_counted_without_what_was_not_run():
    words = ["holds", "not run", "fails", "not claimed here", "holds"]
    assert readme.ran(pd.Series(words)) == "2 hold, 1 fails"
    assert readme.ran(pd.Series(["not run", "not claimed here"])) == "not run"


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


def test_every_paper_names_the_rows():
    for paper in readme.papers(PAPERS, REFERENCE):
        about, _ = read(PAPERS / paper / "claims.yaml")
        assert len(about["against_base"]["methods"]) >= 2


def test_a_paper_without_committed_results_has_no_row(tmp_path):
    """As a sixth one that CONTRIBUTING's steps have just made."""
    papers, text = tmp_path / "papers", (ROOT / "README.md").read_text()
    for claims in PAPERS.glob("*/claims.yaml"):
        (papers / claims.parent.name).mkdir(parents=True)
        shutil.copy(claims, papers / claims.parent.name)
    shutil.copytree(papers / "fade", papers / "sixth")
    assert readme.written(text, papers, REFERENCE) == text
