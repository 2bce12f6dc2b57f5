"""Laptop verdicts by kind: RL apart from theory and toys, and the page's table."""

import pandas as pd
from tiny import ROOT

from common.report import kinds, readme

PAPERS, REFERENCE = ROOT / "papers", ROOT / "results" / "reference"
THEORY = "theory and single measurements"
CLAIMS = """
- {id: rl, claim: c, source: s, laptop: {range: {of: {table: laptop_strong}, low: 0}}}
- {id: refused, claim: c, source: s, laptop: {range: {of: {table: laptop_strong}, low: 0}}}
- {id: exact, claim: c, source: s, laptop: {range: {of: {table: theory}, low: 0}}}
- {id: toys, claim: c, source: s, family: toy, laptop: {range: {of: {table: toy}, low: 0}}}
- {id: later, claim: c, source: s, laptop: {range: {of: {table: laptop_strong}, low: 0}}}
- {id: silent, claim: c, source: s}
"""


def test_claims_are_counted_by_what_they_were_decided_on(tmp_path):
    home, reference = tmp_path / "papers", tmp_path / "reference"
    for folder in (home / "p", reference / "p"):
        folder.mkdir(parents=True)
    (home / "p" / "claims.yaml").write_text(CLAIMS)
    tables = {"rl": "laptop_strong", "exact": "theory", "toys": "toy"}
    gaps = pd.DataFrame({"claim": [*tables], "scope": "laptop", "table": [*tables.values()]})
    gaps.to_csv(reference / "p" / "gaps.csv")
    model = {"scope": ["laptop"], "table": ["laptop_strong"], "model": ["tiny"]}
    pd.DataFrame(model).to_csv(reference / "p" / "comparison.csv")
    words = {"rl": "holds", "refused": "inconclusive", "exact": "holds", "toys": "fails"}
    words |= {"later": "not run", "silent": "not claimed here"}
    pd.DataFrame(words.items(), columns=["id", "laptop"]).to_csv(reference / "p" / "claims.csv")
    assert kinds.kinds("p", home, reference) == {
        **{"rl": kinds.RL, "refused": kinds.RL, "exact": THEORY, "toys": kinds.TOY}
    }
    found = kinds.counts(["p"], home, reference).set_index("kind")
    assert found.loc[kinds.RL, [*kinds.SHOWN]].tolist() == [1, 0, 1, 0]
    assert found.loc[THEORY, [*kinds.SHOWN]].tolist() == [1, 0, 0, 0]
    assert found.loc[kinds.TOY, [*kinds.SHOWN]].tolist() == [0, 1, 0, 0]
    text = kinds.written("\n".join(kinds.MARKS), ["p"], home, reference)
    assert f"| {kinds.RL} | all | 1 | 0 | 1 | 0 | 50 % |" in text


def test_the_page_has_the_table_of_the_committed_results():
    text = (ROOT / "docs" / "evidence.md").read_text()
    papers = readme.papers(PAPERS, REFERENCE)
    assert kinds.written(text, papers, PAPERS, REFERENCE) == text, "stale: run .venv/bin/rlvr docs"


def test_the_readme_counts_headlines_on_rl_alone():
    """CW-GRPO's headline on the covariance, a measurement, is none of its small model's."""
    line = readme.line("cov_grpo", PAPERS, REFERENCE)
    small = [cell.strip() for cell in line.split("|")][5]
    of = kinds.kinds("cov_grpo", PAPERS, REFERENCE)
    assert of["dominate_token_all"] == THEORY
    assert of["stable_drop"] == kinds.RL
    assert sum(int(word) for word in small.replace(",", "").split() if word.isdecimal()) == 3
