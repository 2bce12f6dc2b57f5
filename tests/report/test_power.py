"""Which number of seeds would settle an open claim, and the page's table."""

import pandas as pd
import pytest
from tiny import ROOT

from common.report import power, readme

PAPERS, REFERENCE = ROOT / "papers", ROOT / "results" / "reference"
ROW = dict(p_claim=0.3, n_seeds=9, mdd=4.0, difference=2.0, seed_low=-3, seed_high=7)
ROW |= dict(prompt_low=0, prompt_high=0)
MARGIN = {"laptop": {"difference": {"relation": ">", "value": 1}}}


@pytest.mark.parametrize(
    ("claim", "changes", "word"),
    [
        ({}, {"difference": 4.0}, power.SOON),  # 9 x (4 / 4)^2, and one more
        ({}, {"difference": 2.0}, power.LATER),  # 9 x (4 / 2)^2 = 36
        ({}, {"difference": 1.5}, power.NEVER),  # 64
        (MARGIN, {"difference": 2.5}, power.NEVER),  # of what is above 1: 64
        ({}, {"prompt_low": -9, "prompt_high": 9}, power.NEVER),
        ({}, {"mdd": None}, power.NO_TEST),
        ({}, {"p_claim": None}, power.NO_TEST),
    ],
)
def test_a_claim_needs_as_many_seeds_as_its_smallest_difference(claim, changes, word):
    rows = [ROW | {"difference": 8.0}, ROW | changes]
    if None in changes.values():
        rows = rows[1:]
    assert power.settled_by(claim, pd.DataFrame(rows)) == word


def test_the_page_has_the_table_of_the_committed_results():
    text = (ROOT / "docs" / "evidence.md").read_text()
    papers = readme.papers(PAPERS, REFERENCE)
    assert power.written(text, papers, PAPERS, REFERENCE) == text, "stale: run .venv/bin/rlvr docs"
