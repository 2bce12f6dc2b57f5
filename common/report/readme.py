"""The generated parts of README.md and docs/evidence.md, from the committed results.

`make docs` writes the table of headline claims and the counts of verdicts.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import LAPTOP, SCOPES
from common.comparison.frontier import GRPO, LOWER
from common.report.verdicts import KINDS, RL, Claim, Paper
from common.results.tables import markdown

MARKS = ("<!-- answers: written by `make docs` -->", "<!-- end of answers -->")
VERDICT_MARKS = ("<!-- verdicts: written by `make docs` -->", "<!-- end of verdicts -->")
HEAD = [
    *["paper", "headline claim", "printed", "here, nine base models"],
    *["beside GRPO one learning rate lower", "verdict here"],
    "power of one run at the paper's size",
]
SHOWN = ("holds", "fails", "inconclusive", "mechanism not engaged", "not run")


def table(papers: list[Paper], reference: Path) -> str:
    """Return the README's table, a line for each headline claim on RL: the printed effect; the
    effect in the study with its interval; the same against GRPO one learning rate lower, where the
    study has that measure; the verdict; and how often one faithful run at the paper's size decides
    the claim."""
    study = pd.read_csv(reference / "study" / "methods.csv")
    lines = []
    for one in papers:
        path = reference / one.name / "power.csv"
        power = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["claim"])
        gaps = pd.read_csv(reference / one.name / "gaps.csv")
        for claim in one.headlines:
            if claim.kind == RL and not claim.ours:
                link = f"[{one.title}](papers/{one.name}/README.md)"
                lines.append([link, claim.headline, *_numbers(claim, gaps, study, power)])
    return markdown(HEAD, lines, "llrrrlr")


def _numbers(claim: Claim, gaps: pd.DataFrame, study: pd.DataFrame, power: pd.DataFrame):
    """Return the columns of HEAD from "printed" on."""
    behind = {scope: one for scope, one in gaps[gaps["claim"] == claim.id].groupby("scope")}
    printed, here = behind.get(SCOPES[0]), behind.get(LAPTOP)
    yield f"{printed['difference'].mean():+.1f}" if printed is not None else "no number"
    finding = claim.findings[LAPTOP]
    yield "not run" if here is None else _effect(here.iloc[0], finding.word)
    yield "" if here is None else _lower(here.iloc[0], study)
    yield finding.word
    one = power[(power["claim"] == claim.id) & (power["world"] == "as_printed")]
    one = one[one["seeds"] == 1] if len(one) else one
    yield f"{one['decided'].iloc[0]:.0%}".replace("%", " %") if len(one) else "not known"


def _effect(row: pd.Series, word: str = "") -> str:
    """Return a difference with its interval, and with the corrected p where the interval leaves out
    0 and the claim is open."""
    digits = 1 if str(row["metric"]).startswith("pass@") else 3
    low, high = row["low"], row["high"]
    text = f"{row['difference']:+.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
    p = row["p_holm"]
    open_ = word == "inconclusive" and low * high > 0 and not pd.isna(p)
    return text + (f", corrected p {p:.2g}" if open_ else "")


def _lower(row: pd.Series, study: pd.DataFrame) -> str:
    """Return the same difference against GRPO one learning rate lower."""
    method = str(row["a"]).rpartition("method=")[2].partition(", step")[0]
    same = study[(study["method"] == method) & (study["against"] == f"{GRPO} {LOWER}")]
    same = same[(same["reading"] == "after the last step") & (same["metric"] == row["metric"])]
    same = same[same["benchmark"] == row["benchmark"]].dropna(subset=["difference"])
    return _effect(same.iloc[0]) if len(same) else ""


def verdicts(papers: list[Paper]) -> str:
    """Return the table of docs/evidence.md: counts of laptop verdicts by what they rest on. Claims
    that are our reading are counted apart from the papers'."""
    lines = []
    for kind in KINDS:
        for ours in (False, True):
            counts = {
                one.name: Counter(
                    c.findings[LAPTOP].word for c in one.claims if c.kind == kind and c.ours == ours
                )
                for one in papers
            }
            for name, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
                if total := sum(count[word] for word in SHOWN):
                    said = f"{kind}, our readings" if ours else kind
                    lines.append([said, name, *(str(count[w]) for w in SHOWN), str(total)])
    return markdown(["decided on", "paper", *SHOWN, "all"], lines, "llrrrrrr")
