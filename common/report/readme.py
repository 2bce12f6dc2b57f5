"""The generated parts of README.md and docs/evidence.md, from the committed results.

`make docs` writes the table of papers, the figure beside it, and the counts of verdicts.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import CLUSTER, LAPTOP, SCOPES
from common.comparison.gains import MEASURES
from common.palette import GREY, look
from common.report.verdicts import KINDS, RL, TOYS, WORDS, Paper, counted
from common.results.tables import markdown

MARKS = ("<!-- answers: written by `make docs` -->", "<!-- end of answers -->")
VERDICT_MARKS = ("<!-- verdicts: written by `make docs` -->", "<!-- end of verdicts -->")
HEAD = [
    *("paper", "its idea", "headline claims in print", "at the paper's size", "on a small model"),
    *("change in pass@1 (GRPO's)", "in rare pass@64 (GRPO's)"),
]
SHOWN = ("holds", "fails", "inconclusive", "mechanism not engaged")
LINE = 3.2  # points between two labels of the figure


def table(papers: list[Paper], reference: Path) -> str:
    """Return the README's table: for each paper the verdicts of its headline claims on the printed
    numbers and at both scales, and its method's change of the base model beside GRPO's change."""
    return markdown(HEAD, [_line(one, reference) for one in papers], "lllllrr")


def _line(one: Paper, reference: Path) -> list[str]:
    claims = [claim for claim in one.headlines if claim.family not in TOYS]

    def ran(scope: str, none: str = "not run", kinds: tuple[str, ...] = ("", *KINDS)) -> str:
        words = [claim.findings[scope].word for claim in claims if claim.kind in kinds]
        return counted([w for w in words if w in WORDS and w != "not run"]) or none

    link = f"**[{one.title}](papers/{one.name}/README.md)**"
    link += f" ([{one.arxiv}](https://arxiv.org/abs/{one.arxiv}))"
    found = _against_base(one.name, reference)
    cells = [link, one.brief, ran(SCOPES[0], "none printed"), ran(CLUSTER)]
    cells.append(ran(LAPTOP, kinds=(RL,)))
    return cells + [_effect(found, *measure) for measure in MEASURES]


def verdicts(papers: list[Paper]) -> str:
    """Return the table of docs/evidence.md: counts of laptop verdicts by what they rest on."""
    lines = []
    for kind in KINDS:
        counts = {
            one.name: Counter(c.findings[LAPTOP].word for c in one.theirs if c.kind == kind)
            for one in papers
        }
        for name, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
            total = sum(count[word] for word in SHOWN)
            if total:
                share = f"{count['inconclusive'] / total:.0%}".replace("%", " %")
                lines.append([kind, name, *(str(count[word]) for word in SHOWN), share])
    return markdown(["decided on", "paper", *SHOWN, "inconclusive, share"], lines, "llrrrrr")


def _against_base(paper: str, reference: Path) -> pd.DataFrame:
    """Read the stored table; GRPO's rows come first and the method's last."""
    return pd.read_csv(reference / paper / "against_base.csv")


def _effect(found: pd.DataFrame, benchmark: str, metric: str) -> str:
    """Return the method's difference with its interval, then GRPO's: "+9.9 [7.7, 12.2] (+11.1)"."""
    rows = found[(found["benchmark"] == benchmark) & (found["metric"] == metric)]
    baseline, *_, method = rows.to_dict("records")
    interval = f"[{method['low']:.1f}, {method['high']:.1f}]"
    return f"{method['difference']:+.1f} {interval} ({baseline['difference']:+.1f})"


def draw(papers: list[Paper], reference: Path) -> None:
    """Draw overview.{png,csv} of `reference`: diversity lost against accuracy gained over the base
    model, with an arrow from GRPO to the method of each paper. Other rows are single points."""
    from common import plotting

    figure, axes = plotting.panels(1, width=5.6, height=3.6)
    axis, drawn, labels = axes[0, 0], [], [(0.0, 0.0, "base model", GREY)]
    for paper in papers:
        found = _against_base(paper.name, reference)
        at = [found[found["metric"] == metric].reset_index() for _, metric in MEASURES]
        points = [*zip(at[0]["method"], at[0]["difference"], at[1]["difference"], strict=True)]
        (_, *start), *others, (name, *end) = points
        color = look(name).color
        arrow = {"arrowstyle": "-|>", "color": color, "lw": 2, "shrinkA": 4, "shrinkB": 4}
        axis.annotate("", end, start, arrowprops=arrow)
        axis.plot(*start, "o", mfc="white", mec="black", ms=6)
        axis.plot(*end, "o", color=color, ms=7)
        labels.append((*end, name.split(" (")[0], color))
        for _, *place in others:
            axis.plot(*place, "D", mfc="white", mec="black", ms=6)
        drawn.append(found.assign(paper=paper.name))
    axis.plot(0, 0, "s", color=GREY, ms=7)
    lowest = float("inf")
    for x, y, text, color in sorted(labels, key=lambda label: -label[1]):
        lowest = min(y, lowest - LINE)
        axis.annotate(text, (x - 0.25, lowest), color=color, ha="right", va="center")
    axis.set(xlabel="pass@1 gained over the base model (points)", xlim=(-3, 13), ylim=(-50, 4))
    axis.set(ylabel="pass@64 on rare prompts (points)")
    axis.set_title(
        "circle: GRPO in the paper's setting; diamond: at half the learning rate", size=9
    )
    plotting.save(figure, reference / "overview", pd.concat(drawn, ignore_index=True))
