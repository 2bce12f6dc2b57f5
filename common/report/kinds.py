"""Counts of the laptop verdicts by the kind of evidence.

Claims on RL are counted apart from theory, measurements and toys. Nearly all of the latter are
decided, so a sum would hide how many claims on RL are open.

`rlvr docs` writes the table into docs/evidence.md.
"""

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import LAPTOP, read
from common.report.answers import EXACT, TOYS, models, scale
from common.results.tables import markdown, replaced

RL, TOY = "RL of a small model", "toys and simulations"
KINDS = (RL, EXACT.lower(), TOY)
SHOWN = ("holds", "fails", "inconclusive", "mechanism not engaged")
MARKS = ("<!-- verdicts: written by `rlvr docs` -->", "<!-- end of verdicts -->")


def kinds(paper: str, home: Path, reference: Path) -> dict[str, str]:
    """Return {claim id: kind} for the claims of a paper that have a laptop verdict."""
    folder = reference / paper
    gaps = pd.read_csv(folder / "gaps.csv")
    behind = dict([*gaps[gaps["scope"] == LAPTOP].groupby("claim")])
    known = models(pd.read_csv(folder / "comparison.csv"))
    verdicts = pd.read_csv(folder / "claims.csv", keep_default_na=False).set_index("id")[LAPTOP]
    found = {}
    for claim in read(home / paper / "claims.yaml")[1]:
        name = claim["id"]
        if LAPTOP in claim and verdicts.get(name) in SHOWN:
            where = scale(LAPTOP, claim.get("family", ""), behind.get(name), known)
            found[name] = EXACT.lower() if where == EXACT else TOY if where in TOYS.values() else RL
    return found


def counts(papers: list[str], home: Path, reference: Path) -> pd.DataFrame:
    """Return a table of kind, paper and one column for each verdict of SHOWN."""
    rows = []
    for paper in papers:
        verdicts = pd.read_csv(reference / paper / "claims.csv").set_index("id")[LAPTOP]
        of = Counter((kind, verdicts[name]) for name, kind in kinds(paper, home, reference).items())
        rows += [(kind, paper, *(of[kind, word] for word in SHOWN)) for kind in KINDS]
    found = pd.DataFrame(rows, columns=["kind", "paper", *SHOWN])
    return found.sort_values("kind", key=lambda x: x.map(KINDS.index), kind="stable")


def written(text: str, papers: list[str], home: Path, reference: Path) -> str:
    """Return the `text` of docs/evidence.md with the table made from the committed results."""
    lines = []
    for kind, part in counts(papers, home, reference).groupby("kind", sort=False):
        whole = part[[*SHOWN]].sum()
        for name, row in [*part.set_index("paper")[[*SHOWN]].iterrows(), ("all", whole)]:
            if row.sum():
                share = f"{row['inconclusive'] / row.sum():.0%}".replace("%", " %")
                lines.append([kind, name, *(str(row[word]) for word in SHOWN), share])
    head = ["decided on", "paper", *SHOWN, "inconclusive, share"]
    return replaced("docs/evidence.md", text, MARKS, markdown(head, lines, "llrrrrr"))
