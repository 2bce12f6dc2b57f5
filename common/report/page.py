"""One page for all papers, from result files only.

    rlvr report [results_dir=results]

Writes <results_dir>/report/index.html: claims with their numbers, and figures. A paper with
a finished comparison in <results_dir> is shown from there, every other one from the committed
results. A method of your own (rlvr reproduce paper=study method=FILE) stands among all methods. The
figures are links to files, so the page belongs where it is written; the tables of their numbers,
next to them, have the same names. The same input gives the same bytes.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import partial
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import jinja2

from common.claims.file import LAPTOP, SCOPES
from common.claims.kinds import KINDS
from common.claims.single import ONE_RUN
from common.config.files import REFERENCE, ROOT
from common.config.words import options
from common.errors import require
from common.report import readme, verdicts
from common.report.verdicts import UNCLAIMED, ClaimVerdict, Paper
from common.results.files import write
from common.results.provenance import GREY

HERE = Path(__file__).parent / "templates"
MARKS = {  # verdict -> its colour and symbol
    "holds": "good",
    "fails": "bad",
    "inconclusive": "open",
    ONE_RUN: "open",
    "mechanism not engaged": "idle",
    "not run": "none",
    UNCLAIMED: "absent",
}
NAMES = {
    SCOPES[0]: "printed numbers",
    LAPTOP: "small model, theory, toys",
    SCOPES[2]: "the paper's size",
}


def main(words: list[str]) -> None:
    root = Path(options(words, {"results_dir": "results"})["results_dir"])
    require(root.is_dir(), "results_dir", root, "no such folder; give one that holds results")
    target = root / "report" / "index.html"
    write(target, build(ROOT / "papers", root, REFERENCE, target.parent))
    print(target)


def build(home: Path, root: Path, reference: Path, folder: Path) -> str:
    """Return the page, to be written to `folder`. A paper is shown from `root` if a finished
    comparison is there, else from the committed results in `reference`."""
    shown = []
    for name in verdicts.papers(home, root) + verdicts.papers(home, reference):
        if name not in [one["paper"].name for one in shown]:
            own = (root / name / "claims.csv").exists() and root.resolve() != reference.resolve()
            place = (root if own else reference) / name
            shown.append(_shown(verdicts.paper(name, home, place), place, own))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["href"] = partial(href, folder=folder)
    methods, said = readme.own_methods(root, reference)
    keeps = reference / "study" / "figures" / "keeps.png"
    text = environment.get_template("page.html").render(
        papers=sorted(shown, key=lambda one: one["paper"].name),
        scopes=SCOPES,
        names=NAMES,
        marks=MARKS,
        mark=mark,
        methods=methods,
        methods_head=readme.METHODS_HEAD,
        said=said,
        keeps=keeps if keeps.exists() else None,
        style=(HERE / "style.css").read_text(),
    )
    return re.sub(r"\n\s+", "\n", text)


def _shown(paper: Paper, place: Path, own: bool) -> dict:
    """Return what the template shows of a paper whose results are in the folder `place`."""
    figures = sorted((place / "figures").glob("*.png"), key=_order)
    tables = place / "comparison.md"
    return {
        "paper": paper,
        "place": place,
        "own": own,
        "counts": counts(paper),
        "claims": [(name, [*some]) for name, some in groupby(paper.claims, lambda c: c.section)],
        "tables": tables if tables.exists() else None,
        "figures": figures,
    }


def counts(paper: Paper) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return (what was read, its counts of verdicts): print, each kind of rerun, a cluster."""
    groups: dict[str, Counter] = {SCOPES[0]: Counter()} | {kind: Counter() for kind in KINDS}
    groups |= {SCOPES[2]: Counter()}
    for claim in paper.theirs:
        for scope, finding in claim.findings.items():
            name = claim.kind if scope == LAPTOP else scope
            if finding.word != UNCLAIMED and name:
                groups[name][finding.word] += 1
    lines = {name: [(w, count[w]) for w in MARKS if count[w]] for name, count in groups.items()}
    return [(NAMES.get(name, name), line) for name, line in lines.items() if line]


def mark(finding: ClaimVerdict) -> str:
    """Return the colour and symbol of a verdict; grey where the files of its runs are gone."""
    return "grey" if finding.state in GREY else MARKS.get(finding.word, "none")


def href(path: Path, folder: Path) -> str:
    """Return a link to a file next to the page."""
    return quote(Path(os.path.relpath(path, folder)).as_posix())


def _order(path: Path) -> tuple:
    """Sort key: trained results before computed ones, then by name, with numbers as numbers."""
    pieces = re.split(r"(\d+)", path.stem)
    scale = [not path.stem.startswith(word) for word in ("cluster", "laptop")]
    return *scale, [(int(piece), "") if piece.isdigit() else (0, piece) for piece in pieces]
