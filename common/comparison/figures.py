"""The figures of a paper's laptop runs, toys and simulations, from its result tables alone.

    rlvr figures paper=NAME [results_dir=results]

Writes <results_dir>/NAME/figures/. `python -m papers.NAME.theory` draws the figures of the theory.
"""

from pathlib import Path

from common.config.files import ROOT, known_paper
from common.config.resolve import named
from common.config.words import options


def main(words: list[str]) -> None:
    given = options(words, {"paper": "", "results_dir": "results"})
    draw(known_paper(given["paper"]), Path(given["results_dir"]))


def draw(paper: str, root: Path) -> None:
    """Every figure that the results below `root` allow, into <root>/<paper>/figures/."""
    if (ROOT / "papers" / paper / "figures.py").exists():  # a paper may have none
        named({"_target_": f"papers.{paper}.figures.draw"}, "figures")(root)
