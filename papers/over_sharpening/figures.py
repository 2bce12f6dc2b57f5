"""Figures of the toy, drawn from result files alone.

    rlvr figures paper=over_sharpening [results_dir=results]

`python -m papers.over_sharpening.theory` draws the figures of the theory.
"""

from pathlib import Path

from papers.over_sharpening.toy import figures as toy_figures


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow, in over_sharpening/figures/."""
    toy = root / "over_sharpening" / "toy"
    if (toy / "final.csv.gz").exists():
        toy_figures.draw(toy, root / "over_sharpening" / "figures")
