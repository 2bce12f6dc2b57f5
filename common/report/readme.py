"""The table on the README's first screen: one line for each paper, written between two marks.

`rlvr docs` writes it from the committed tables, and draws the figure beside it; tests/report/
test_readme.py fails where it is stale.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import CLUSTER, LAPTOP, read
from common.comparison.against_base import MEASURES
from common.palette import GREY, look
from common.report.answers import PUBLISHED, TOYS, WORDS, counted
from common.report.kinds import RL, kinds
from common.results.tables import replaced

START, END = (
    "<!-- answers: written by `rlvr docs` -->",
    "<!-- end of answers -->",
)
LINE = 3.2  # points between two labels of the figure
HEAD = (
    "| paper | its idea | headline claims in print | at the paper's size | on a small model | "
    "change in pass@1 (GRPO's) | in rare pass@64 (GRPO's) |",
    "| --- | --- | --- | --- | --- | ---: | ---: |",
)


def written(text: str, home: Path, reference: Path) -> str:
    """Return the README's `text` with its table made from the committed results. Raises UserError
    where the marks are missing."""
    lines = [line(paper, home, reference) for paper in papers(home, reference)]
    table = "\n".join([*HEAD, *lines, ""])
    return replaced("README.md", text, (START, END), table)


def papers(home: Path, reference: Path) -> list[str]:
    """Return the papers that have committed results; a paper that was just begun has none."""
    names = sorted(path.parent.name for path in home.glob("*/claims.yaml"))
    return [name for name in names if (reference / name / "against_base.csv").exists()]


def line(paper: str, home: Path, reference: Path) -> str:
    """Return a paper's row of the table: the verdicts of its headline claims on the printed numbers
    and at both scales, and its method's change of the base model beside GRPO's change."""
    about, claims = read(home / paper / "claims.yaml")
    verdicts = pd.read_csv(reference / paper / "claims.csv", keep_default_na=False).set_index("id")
    chosen = [claim for claim in claims if "headline" in claim and claim.get("family") not in TOYS]
    headlines, of = verdicts.loc[[claim["id"] for claim in chosen]], kinds(paper, home, reference)
    link = f"**[{about['paper']}](papers/{paper}/README.md)**"
    link += f" ([{about['arxiv']}](https://arxiv.org/abs/{about['arxiv']}))"
    found = against_base(paper, reference)
    trained = headlines.loc[[name for name in headlines.index if of.get(name) == RL]]
    cells = [link, about["brief"], ran(headlines[PUBLISHED], "none printed")]
    cells += [ran(headlines[CLUSTER]), ran(trained[LAPTOP])]
    cells += [effect(found, *measure) for measure in MEASURES]
    return f"| {' | '.join(cells)} |"


def against_base(paper: str, reference: Path) -> pd.DataFrame:
    """Read the stored table; GRPO's rows come first and the method's last."""
    return pd.read_csv(reference / paper / "against_base.csv")


def ran(verdicts: pd.Series, none: str = "not run") -> str:
    """Return the verdicts of the claims that were run in words, or `none` where none was run."""
    counts = Counter(word for word in verdicts if word in WORDS and word != "not run")
    return counted(counts) or none


def effect(found: pd.DataFrame, benchmark: str, metric: str) -> str:
    """Return the method's difference with its interval, then GRPO's: "+9.9 [7.7, 12.2] (+11.1)"."""
    rows = found[(found["benchmark"] == benchmark) & (found["metric"] == metric)]
    baseline, *_, method = rows.to_dict("records")
    interval = f"[{method['low']:.1f}, {method['high']:.1f}]"
    return f"{method['difference']:+.1f} {interval} ({baseline['difference']:+.1f})"


def draw(home: Path, reference: Path) -> None:
    """Draw overview.{png,csv} of `reference`: diversity lost against accuracy gained over the base
    model, with an arrow from GRPO to the method of each paper. Other rows are single points."""
    from common import plotting

    figure, axes = plotting.panels(1, width=5.6, height=3.6)
    axis, drawn, labels = axes[0, 0], [], [(0.0, 0.0, "base model", GREY)]
    for paper in papers(home, reference):
        found = against_base(paper, reference)
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
        drawn.append(found.assign(paper=paper))
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
