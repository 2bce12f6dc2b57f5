"""The README's first screen: what the report's says, in ten lines between two marks.

`python -m common.report readme` writes it; tests/report/test_answers.py fails where it is stale.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import read
from common.errors import require
from common.report import answers
from common.report.answers import LAPTOP, Answer

START, END = (
    "<!-- answers: written by `python -m common.report readme` -->",
    "<!-- end of answers -->",
)


def written(text: str, home: Path, reference: Path) -> str:
    """The README's `text` with its answers as of the committed tables. Raises UserError where the
    marks are not there."""
    require(START in text and END in text, "README.md", "marks", f"keep {START} and {END} in it")
    before, rest = text.split(START, 1)
    _, after = rest.split(END, 1)
    papers = sorted(path.parent.name for path in home.glob("*/claims.yaml"))
    lines = [line(answer(paper, home, reference)) for paper in papers]
    head = ["| paper, and what it claims | its headline claims here |", "| --- | --- |"]
    return f"{before}{START}\n" + "\n".join([*head, *lines]) + f"\n{END}{after}"


def answer(paper: str, home: Path, reference: Path) -> Answer:
    """From the committed tables alone."""
    folder = reference / paper
    about, claims = read(home / paper / "claims.yaml")
    summary = pd.read_csv(folder / "comparison.csv", usecols=["scope", "table", "model"])
    return answers.answer(
        paper,
        about,
        {claim["id"]: claim for claim in claims},
        pd.read_csv(folder / "claims.csv", keep_default_na=False),
        pd.read_csv(folder / "gaps.csv"),
        answers.models(summary),
    )


def line(one: Answer) -> str:
    """A row of the README's table: of each verdict how many headline claims, and the first."""
    link = f"[{one.title}](papers/{one.paper}/README.md)"
    number = f" ([{one.arxiv}](https://arxiv.org/abs/{one.arxiv}))" if one.arxiv else ""
    by_word: dict[str, list[str]] = {}
    found = [(made, head) for head in one.headlines for made in head.findings]
    # runs before toys and theory: the sentence before the table is of them
    for made, head in sorted(found, key=lambda pair: not pair[0].scale.startswith("Laptop")):
        if made.scope == LAPTOP and made.word != "not run":
            by_word.setdefault(made.word, []).append(f"{head.text}, {made.effect.text}")
    known = [
        f"**{answers.counted(Counter({word: len(by_word[word])}))}**: {by_word[word][0]}"
        for word in answers.WORDS
        if word in by_word
    ]
    return f"| {link}{number}: {one.says} | {'. '.join(known)} |"
