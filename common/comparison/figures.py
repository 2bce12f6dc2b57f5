"""The figures of the study, of toys and of simulations, from result tables only.

    rlvr figures paper=NAME [results_dir=results]

papers/NAME/figures.py writes them below <results_dir>/NAME/. Theory: `python -m
papers.NAME.theory`.
"""

from pathlib import Path

from common.config.files import ROOT, papers, studies
from common.config.resolve import import_target
from common.config.words import options
from common.errors import one_of, require


def main(words: list[str]) -> None:
    given = options(words, {"paper": "", "results_dir": "results"})
    paper, root = given["paper"], Path(given["results_dir"])
    one_of("paper", paper, studies())
    remedy = f"has no {paper}/; run `rlvr reproduce paper={paper}` first"
    require((root / paper).is_dir() or paper not in papers(), "results_dir", root, remedy)
    draw_paper(paper, root)
    print(f"figures: {len(list((root / paper).rglob('*.png')))} below {root / paper}")


def draw_paper(paper: str, root: Path) -> None:
    """Draw every figure that the results below `root` allow into <root>/<paper>/figures/."""
    if (ROOT / "papers" / paper / "figures.py").exists():  # a paper may have none
        import_target(f"papers.{paper}.figures.draw", "figures")(root)
