"""One page for all papers, from result files only.

    rlvr report [results_dir=results]

Writes <results_dir>/report/index.html from the committed results, beside what your own comparisons
in <results_dir> decide. A method of your own (rlvr reproduce paper=study method=FILE) stands among
all methods. The page links to figures and tables by relative path, so it belongs where it is
written. The same input gives the same bytes.
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
from common.report.verdicts import SILENT, UNCLAIMED, ClaimVerdict, JudgedClaim, Paper
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
    require(root.is_dir(), "results_dir", root, "is not a folder; name one that holds results")
    target = root / "report" / "index.html"
    write(target, build(ROOT / "papers", root, REFERENCE, target.parent))
    print(target)


def build(home: Path, root: Path, reference: Path, folder: Path) -> str:
    """Return the page, to be written to `folder`, of the committed results in `reference` and of
    the finished comparisons in `root`."""
    found = {*verdicts.papers(home, reference), *verdicts.papers(home, root)}
    order = [*readme.METHODS, *sorted(found - readme.METHODS.keys())]
    shown = [_shown(name, home, root, reference) for name in order if name in found]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["href"] = partial(href, folder=folder)
    methods, said = readme.own_methods(root, reference)
    pictures = (reference / name / "figures" / "keeps.png" for name in ("confirmatory", "study"))
    text = environment.get_template("page.html").render(
        papers=shown,
        scopes=SCOPES,
        names=NAMES,
        marks=MARKS,
        mark=mark,
        pair=pair,
        silent=SILENT,
        methods=methods,
        methods_head=readme.METHODS_HEAD,
        said=said,
        keeps=next((path for path in pictures if path.exists()), None),
        style=(HERE / "style.css").read_text(),
    )
    return re.sub(r"\n\s+", "\n", text)


def _shown(name: str, home: Path, root: Path, reference: Path) -> dict:
    places = [place / name for place in dict.fromkeys([root.resolve(), reference.resolve()])]
    places = [place for place in places if (place / "claims.csv").exists()]
    yours, *stored = (verdicts.paper(name, home, place) for place in places)
    paper = verdicts.beside(stored[0], yours) if stored else yours
    figures = [sorted((place / "figures").glob("*.png"), key=_order) for place in places]
    tables = [place / "comparison.md" for place in places]
    return {
        "paper": paper,
        "own": bool(stored),
        "counts": counts(paper),
        "claims": [(name, [*some]) for name, some in groupby(paper.claims, lambda c: c.section)],
        "tables": [path for path in tables if path.exists()],
        "figures": next(filter(None, figures), []),
    }


def counts(paper: Paper) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return (what was read, its counts of verdicts): print, each kind of rerun, a cluster. A claim
    that your runs decide counts with their verdict."""
    groups: dict[str, Counter] = {SCOPES[0]: Counter()} | {kind: Counter() for kind in KINDS}
    groups |= {SCOPES[2]: Counter()}
    for claim in paper.theirs:
        for scope, finding in (claim.findings | claim.yours).items():
            name = claim.kind if scope == LAPTOP else scope
            if finding.word != UNCLAIMED and name:
                groups[name][finding.word] += 1
    lines = {name: [(w, count[w]) for w in MARKS if count[w]] for name, count in groups.items()}
    return [(NAMES.get(name, name), line) for name, line in lines.items() if line]


def pair(claim: JudgedClaim, scope: str) -> list[tuple[str, ClaimVerdict]]:
    """Return (whose runs, verdict) in a scope: yours first, if they decide anything."""
    stored = ("stored" if scope in claim.yours else "", claim.findings[scope])
    return [("yours", claim.yours[scope]), stored] if scope in claim.yours else [stored]


def mark(finding: ClaimVerdict) -> str:
    """Return the colour and symbol of a verdict; grey where the files of its runs are gone."""
    return "grey" if finding.state in GREY else MARKS.get(finding.word, "none")


def href(path: Path, folder: Path) -> str:
    return quote(Path(os.path.relpath(path, folder)).as_posix())


def _order(path: Path) -> tuple:
    """Sort trained results before computed ones, then by name, with numbers as numbers."""
    pieces = re.split(r"(\d+)", path.stem)
    scale = [not path.stem.startswith(word) for word in ("cluster", "laptop")]
    return *scale, [(int(piece), "") if piece.isdigit() else (0, piece) for piece in pieces]
