"""Figures of the toy, drawn from result files alone.

    rlvr figures paper=two_stage [results_dir=results]

`python -m papers.two_stage.theory` draws the figures of the theory.
"""

from pathlib import Path

from papers.two_stage.toy import figures as toy_figures


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow into <root>/two_stage/figures/."""
    toy = root / "two_stage" / "toy"
    if (toy / "ends.csv.gz").exists():
        toy_figures.draw(toy, root / "two_stage" / "figures")
