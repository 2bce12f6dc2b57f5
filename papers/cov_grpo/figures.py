"""Figures of the covariance statistics and of the laptop runs, from result files alone.

rlvr figures paper=cov_grpo [results_dir=results]
"""

from pathlib import Path

import pandas as pd

from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.palette import colors
from common.plotting import by_seed, legend, panels, save
from papers.cov_grpo import laptop
from papers.cov_grpo.covariance import figures as covariance_figures

MAIN = colors(["GRPO", "CW-GRPO", "Clip-Cov", "CW-GRPO (by group)", "CW-GRPO (repository)"])
CHECKPOINTS = (1, 1.5, 2)  # checkpoints of Table 3, in units of the training horizon


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow, into <root>/cov_grpo/figures/."""
    folder, source = root / "cov_grpo" / "figures", root / "cov_grpo" / "covariance"
    if (source / "cumulative.csv").exists():
        covariance_figures.draw(source, folder / "covariance")
    rows, _ = read(root, "cov_grpo", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    curves = laptop.read(root, "training")
    for table in laptop_figures.tables(rows, MAIN):
        shown = rows[(rows["table"] == table) | (rows["method"] == "base")]
        fig1(curves[curves["table"] == table], folder / f"{table}_fig1")
        table3(shown, folder / f"{table}_table3")


def fig1(curves: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 1: entropy along training, and the training reward beside it.

    Thin lines are seeds, thick lines their mean.
    """
    shown = laptop_figures.present(curves, MAIN)
    if not shown:
        return
    figure, axes = panels(2, width=4.0, height=2.9)
    titles = {"entropy": "policy entropy (nats a token)", "reward": "training reward"}
    for axis, (metric, title) in zip(axes[0], titles.items(), strict=True):
        by_seed(axis, curves, metric, shown)
        axis.set(xlabel="step", title=title)
    legend(figure, axes[0, 0], 3)
    save(figure, path, curves[curves["method"].isin(list(shown))])


def table3(rows: pd.DataFrame, path: Path) -> None:
    """Draw the laptop's counterpart of Table 3: accuracy and test entropy at 1, 1.5 and 2 horizons.

    Points are means over seeds, bars standard errors.
    """
    shown = laptop_figures.present(rows, MAIN)
    last = rows["step"].max()
    steps = [int(last * share / CHECKPOINTS[-1]) for share in CHECKPOINTS]
    if not shown or not set(steps) <= set(rows["step"]):
        return
    cells = {
        "natural pass@1 (%)": ("natural", "pass@1"),
        "rare pass@1 (%)": ("rare", "pass@1"),
        "token entropy, natural (nats)": ("natural", "token_entropy"),
    }
    figure, axes = panels(3, width=3.0, height=2.9)
    drawn = laptop_figures.along(axes[0], rows, MAIN, cells, steps)
    for axis in axes[0]:
        axis.set_xticks(steps)
    legend(figure, axes[0, 0], 3)
    save(figure, path, drawn)
