"""A table of how many seeds would settle the open laptop claims on RL, from the stored results.

`rlvr docs` writes it into docs/evidence.md.
"""

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import LAPTOP, read
from common.report.kinds import RL, kinds
from common.report.next_steps import MOST, null, seeds_needed
from common.results.tables import markdown, replaced

FEW = 20  # seeds: about twice as many as most rows have
SOON, LATER, NEVER, NO_TEST = WORDS = (
    f"at most {FEW} seeds",
    f"{FEW + 1} to {MOST}",
    "more, or no number of seeds",
    "no test",
)
MARKS = ("<!-- power: written by `rlvr docs` -->", "<!-- end of power -->")


def settled_by(claim: dict, gaps: pd.DataFrame) -> str:
    """Return which of WORDS would decide a claim on RL in 80 % of repetitions if each of its
    comparisons (rows of gaps.csv) truly differs as much as was seen. The correction over claims is
    left out."""
    tested = gaps[gaps["mdd"].notna() & gaps["p_claim"].notna()]
    if tested.empty:
        return NO_TEST
    needed = [seeds_needed(row, null(claim)) for row in tested.to_dict("records")]
    if not all(needed):
        return NEVER
    return SOON if max(needed) <= FEW else LATER


def counts(papers: list[str], home: Path, reference: Path) -> pd.DataFrame:
    """Count the open claims on RL: one row for each paper, one column for each of WORDS."""
    rows = {}
    for paper in papers:
        folder, of = reference / paper, kinds(paper, home, reference)
        verdicts = pd.read_csv(folder / "claims.csv").set_index("id")[LAPTOP]
        gaps = pd.read_csv(folder / "gaps.csv")
        gaps = gaps[gaps["scope"] == LAPTOP]
        rows[paper] = Counter(
            settled_by(claim, gaps[gaps["claim"] == claim["id"]])
            for claim in read(home / paper / "claims.yaml")[1]
            if of.get(claim["id"]) == RL and verdicts[claim["id"]] == "inconclusive"
        )
    return pd.DataFrame.from_dict(rows, orient="index").reindex(columns=[*WORDS]).fillna(0)


def written(text: str, papers: list[str], home: Path, reference: Path) -> str:
    """Return the `text` of docs/evidence.md with the table made from the committed results."""
    found = counts(papers, home, reference).astype(int)
    found.loc["all"] = found.sum()
    found.insert(0, "inconclusive", found.sum(axis=1))
    lines = [[name, *map(str, row)] for name, row in zip(found.index, found.values, strict=True)]
    head = ["paper", *found.columns]
    return replaced("docs/evidence.md", text, MARKS, markdown(head, lines, "lrrrrr"))
