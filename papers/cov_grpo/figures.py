"""Figures of the covariance statistics, from result files alone.

rlvr figures paper=cov_grpo [results_dir=results]
"""

from pathlib import Path

from papers.cov_grpo.covariance import figures as covariance_figures


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow, into <root>/cov_grpo/figures/."""
    folder, source = root / "cov_grpo" / "figures", root / "cov_grpo" / "covariance"
    if (source / "cumulative.csv").exists():
        covariance_figures.draw(source, folder / "covariance")
