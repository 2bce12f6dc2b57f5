"""A paper's claims and verdicts, as the page and the README read them."""

import re

import pandas as pd
import pytest
from tiny import ROOT

from common.claims.file import load
from common.claims.kinds import EXACT, RL, TOY, kinds
from common.report import page, readme, verdicts
from common.report.verdicts import effect

HOME, REFERENCE = ROOT / "papers", ROOT / "results" / "reference"
CLAIMS = """
- {paper: P, arxiv: "1234.5678", brief: an idea, says: It works.}
- section: one
- {id: rl, claim: c, source: s, headline: h, laptop: {range: {of: {table: strong}, low: 0}}}
- id: reading
  ours: true
  claim: c
  source: s
  headline: h
  laptop: {range: {of: {table: strong}, low: 0}}
- {id: refused, claim: c, source: s, laptop: {range: {of: {table: strong}, low: 0}}}
- {id: exact, claim: c, source: s, laptop: {range: {of: {table: theory}, low: 0}}}
- {id: toys, claim: c, source: s, family: toy, laptop: {range: {of: {table: toy}, low: 0}}}
- {id: silent, claim: c, source: s}
- {id: written_later, claim: c, source: s}
"""
WORDS = {
    "rl": "holds",
    "reading": "fails",
    "refused": "inconclusive",
    "exact": "holds",
    "toys": "fails",
    "silent": "",
}
ON = {"rl": RL, "reading": RL, "refused": RL, "exact": EXACT, "toys": TOY, "silent": ""}


def gap(table: str = "strong", **changed) -> dict:
    row = {"claim": "rl", "scope": "laptop", "of": None, "table": table, "benchmark": "rare"}
    row |= {"metric": "pass@64", "difference": 7.09, "low": 3.39, "high": 10.8, "p_holm": 0.12}
    row |= {"p_bh": 0.06, "verdict": "holds", "family": "primary", "n_seeds": 9}
    return row | changed


def stored(folder, **words):
    """A results folder with the tables of the claims above; `words` are laptop verdicts."""
    folder.mkdir(parents=True)
    gaps = [gap(), gap("theory", claim="exact"), gap("toy_1", claim="toys")]
    pd.DataFrame(gaps).to_csv(folder / "gaps.csv", index=False)
    empty = {f"{s}_{what}": "" for s in ("published", "cluster") for what in ("numbers", "state")}
    empty |= {"published": "holds", "cluster": "not run", "laptop_state": "", "laptop_numbers": "n"}
    judged = (WORDS | words).items()
    rows = [{"id": name, "laptop": word, "kind": ON[name]} | empty for name, word in judged]
    pd.DataFrame(rows).to_csv(folder / "claims.csv", index=False)
    return folder


def written(home):
    """A folder of papers with the claims above."""
    (home / "p").mkdir(parents=True)
    (home / "p" / "claims.yaml").write_text(CLAIMS)
    return home


def test_claims_have_what_they_were_decided_on(tmp_path):
    home = written(tmp_path / "papers")
    paper = verdicts.paper("p", home, stored(tmp_path / "results" / "p"))
    assert {claim.id: claim.kind for claim in paper.claims} == ON
    gaps = pd.DataFrame([gap(), gap("theory", claim="exact"), gap("toy_1", claim="toys")])
    found = kinds(load(home / "p" / "claims.yaml"), gaps, {"strong"})
    assert found == ON | {"written_later": ""}
    assert (paper.about.paper, paper.about.arxiv) == ("P", "1234.5678")
    assert [claim.id for claim in paper.headlines] == ["rl"]
    found = {claim.id: claim.findings["laptop"].word for claim in paper.claims}
    assert found == WORDS | {"silent": "not claimed here"}


def test_only_papers_with_committed_verdicts_are_papers(tmp_path):
    home = written(tmp_path / "papers")
    assert verdicts.papers(home, tmp_path / "results") == []
    stored(tmp_path / "results" / "p")
    assert verdicts.papers(home, tmp_path / "results") == ["p"]


@pytest.mark.parametrize(
    ("rows", "verdict", "text"),
    [
        ([gap()], "holds", "7.1 [3.4, 10.8] points of rare pass@64, 9 seeds"),
        (
            [gap(low=None, metric="entropy", difference=0.0432)],
            "holds",
            "0.043 (rare entropy), 9 seeds",
        ),
        (
            [gap()],  # before the correction it holds
            "inconclusive",
            "7.1 [3.4, 10.8] points of rare pass@64, 9 seeds; p = 0.12 after Holm's correction",
        ),
        (
            [gap(family="rest", metric="c")],
            "inconclusive",
            "7.1 [3.4, 10.8] (rare c), 9 seeds; p = 0.06 after Benjamini-Hochberg's correction",
        ),
        ([gap(p_holm=None)], "inconclusive", "7.1 [3.4, 10.8] points of rare pass@64, 9 seeds"),
        (
            [gap(), gap(difference=-2.0, verdict="fails")],
            "holds",
            "1 of 2 comparisons as claimed, 1 against, differences -2.0 to 7.1",
        ),
        (
            [gap(of=2), gap(), gap(verdict="inconclusive")],
            "holds",
            "7.1 [3.4, 10.8] points of rare pass@64 on average, 9 seeds; alone, 1 of 2 comparisons "
            "as claimed, 0 against",
        ),
        (None, "not run", "first"),
    ],
)
def test_an_effect_has_its_unit_and_its_interval(rows, verdict, text):
    gaps = None if rows is None else pd.DataFrame(rows)
    assert effect(gaps, {"laptop": verdict, "laptop_numbers": "first; second"}, "laptop") == text


def test_every_inconclusive_claim_shows_the_corrected_p_that_made_it_so():
    for name in verdicts.papers(HOME, REFERENCE):
        for claim in verdicts.paper(name, HOME, REFERENCE / name).claims:
            found = claim.findings["laptop"]
            used = re.search(r"(Holm|BH) p ([^,]+)", found.numbers)
            if found.word == "inconclusive" and used:
                by = verdicts.BH if used[1] == "BH" else used[1]
                assert found.effect.endswith(f"; p = {used[2]} after {by}'s correction"), claim.id


def test_our_readings_are_shown_and_not_counted(tmp_path):
    home = written(tmp_path / "papers")
    paper = verdicts.paper("p", home, stored(tmp_path / "results" / "p"))
    assert "reading" in [claim.id for claim in paper.claims]
    assert "reading" not in [claim.id for claim in paper.theirs]
    assert dict(page.counts(paper))[RL] == [("holds", 1), ("inconclusive", 1)]
    lines = [line for line in readme.verdicts([paper]).splitlines() if RL in line]
    assert [cell.strip() for cell in lines[0].split("|")][3:7] == ["1", "0", "1", "0"]


def test_cw_grpos_covariance_is_a_measurement_and_its_entropy_is_trained():
    paper = verdicts.paper("cov_grpo", HOME, REFERENCE / "cov_grpo")
    kinds = {claim.id: claim.kind for claim in paper.claims}
    assert (kinds["dominate_token_all"], kinds["stable_drop"]) == (EXACT, RL)
