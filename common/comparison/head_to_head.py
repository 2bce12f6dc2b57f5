"""Each paper's method against its GRPO baseline in all MEASURES, and the methods of three papers
against each other: F-GRPO, FADE and over-sharpening share GRPO's settings, seeds and base models.

`rlvr docs` writes the table into docs/testbeds.md. Runs are read as for claims, as the mean of the
last three checkpoints, and paired by seed and problem. No difference is corrected for the others.
"""

from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from common.claims.file import AGAINST_BASE
from common.claims.file import read as read_claims
from common.claims.judge import LAST
from common.comparison.difference import Side, differences
from common.comparison.gather import LAPTOP, read
from common.results.tables import markdown, replaced

SHARED = ("f_grpo", "fade", "over_sharpening")  # papers whose GRPO rows are the same training runs
MEASURES = (("rare", "pass@64"), ("natural", "pass@64"), ("natural", "pass@1"))
MARKS = ("<!-- head to head: written by `rlvr docs` -->", "<!-- end of head to head -->")


class Method(NamedTuple):
    name: str
    side: Side


def methods(paper: str, home: Path, reference: Path) -> tuple[Method, Method]:
    """Return a paper's GRPO and its method, as `against_base` in its claims.yaml names them."""
    given = read_claims(home / paper / "claims.yaml")[0][AGAINST_BASE]
    rows, counts = (x[x["table"] == given["table"]] for x in read(reference, paper, LAPTOP))
    baseline, *_, method = (
        Method(name, (rows[rows["method"] == name], counts[counts["method"] == name]))
        for name in given["methods"]
    )
    return baseline, method


def pairs(papers: list[str], home: Path, reference: Path) -> list[tuple[Method, Method]]:
    """Return each method with its paper's GRPO, then the methods of SHARED with each other."""
    found = {paper: methods(paper, home, reference) for paper in papers}
    shared = [found[paper][1] for paper in SHARED]
    both = [*found.values(), *combinations(shared, 2)]
    return [(method, other) for other, method in both]


def table(found: list[tuple[Method, Method]]) -> pd.DataFrame:
    """Return claims.GAPS of the first of each pair minus the second, one row per measure. a and b
    are the names."""
    parts = []
    for a, b in found:
        gaps = differences(a.side, b.side, ["pass@1", "pass@64"], LAST)
        gaps = gaps.set_index(["benchmark", "metric"]).loc[[*MEASURES]].reset_index()
        parts.append(gaps.assign(a=a.name, b=b.name))
    return pd.concat(parts, ignore_index=True)


def written(text: str, papers: list[str], home: Path, reference: Path) -> str:
    """Return `text` (docs/testbeds.md) with the table made anew from the committed results."""
    lines = []
    for (a, b), rows in table(pairs(papers, home, reference)).groupby(["a", "b"], sort=False):
        cells = [
            f"{row.difference:+.1f} [{row.low:.1f}, {row.high:.1f}]" for row in rows.itertuples()
        ]
        lines.append([f"{a} minus {b}", *cells, f"{rows['n_seeds'].min():.0f}"])
    head = ["", *(" ".join(measure) for measure in MEASURES), "seeds"]
    return replaced("docs/testbeds.md", text, MARKS, markdown(head, lines, "lrrrr"))
