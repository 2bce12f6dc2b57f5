"""The README's first screen: what the report's says, in two lines a paper between two marks.

`make docs` writes it; tests/report/test_answers.py fails where it is stale.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import read
from common.errors import require
from common.report import answers
from common.report.answers import PUBLISHED, Answer, Finding

START, END = (
    "<!-- answers: written by `make docs` -->",
    "<!-- end of answers -->",
)


def written(text: str, home: Path, reference: Path) -> str:
    """The README's `text` with its answers as of the committed tables. Raises UserError where the
    marks are not there."""
    require(START in text and END in text, "README.md", "marks", f"keep {START} and {END} in it")
    before, rest = text.split(START, 1)
    _, after = rest.split(END, 1)
    papers = sorted(path.parent.name for path in home.glob("*/claims.yaml"))
    papers = [name for name in papers if (reference / name / "claims.csv").exists()]
    lines = [line for paper in papers for line in rows(answer(paper, home, reference))]
    head = [
        "| paper | claims, among others | came out | by how much |",
        "| --- | --- | --- | --- |",
    ]
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


def rows(one: Answer) -> list[str]:
    """A paper's two rows: its idea beside a headline claim, and beside another one how many of its
    headline claims came out how."""
    ran = rerun(one)
    link = f"**[{one.title}](papers/{one.paper}/README.md)**"
    link += f" ([{one.arxiv}](https://arxiv.org/abs/{one.arxiv}))" if one.arxiv else ""
    counts = answers.counted(Counter(found.word for _, found in ran))
    left = [f"{link}: {one.brief}", f"{len(ran)} of its headline claims rerun: {counts}"]
    shown = [f"{text} | **{found.word}** | {found.effect.text}" for text, found in two(ran)]
    shown += ["none was rerun | | "] * (2 - len(shown))
    return [f"| {words} | {cells} |" for words, cells in zip(left, shown, strict=True)]


def rerun(one: Answer) -> list[tuple[str, Finding]]:
    """The headline claims that were rerun, each with its verdict at the largest scale; in the order
    of claims.yaml, those of the largest scale first."""
    place = {(scale.scope, scale.name): i for i, scale in enumerate(one.scales)}

    def size(found: Finding) -> int:
        return place[found.scope, found.scale]

    ran = []
    for head in one.headlines:
        made = [f for f in head.findings if f.scope != PUBLISHED and f.word != "not run"]
        ran += [(head.text, max(made, key=size))] if made else []
    return sorted(ran, key=lambda pair: -size(pair[1]))


def two(ran: list[tuple[str, Finding]]) -> list[tuple[str, Finding]]:
    """The first that holds and the first that fails; where there is none, the first of the other
    verdicts, then the next in order."""
    first = [next((one for one in ran if one[1].word == word), None) for word in answers.WORDS]
    chosen = [one for one in first if one][:2]
    return chosen + [one for one in ran if one not in chosen][: 2 - len(chosen)]
