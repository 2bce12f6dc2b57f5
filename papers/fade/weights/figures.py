"""Figures of the weight changes (FADE Fig. 5, Table 9), each with its CSV. Points are single runs;
vertical marks are their means over seeds."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, legend, panels, save
from papers.fade.weights.tables import HEAD

TITLES = {
    "energy_share": "output head, % of ||Delta||^2",
    "s1_over_s2": "output head, s1/s2",
    "rank1_fraction": "rank-1 fraction r1",
    "srank": "output head, srank",
}


def draw(root: Path) -> None:
    """Draw Fig. 5 of the study's runs, for every base model that `root` has tables of."""
    home = root / "fade" / "geometry"
    for table in sorted((home / "laptop").glob("**/tensors.csv")):
        name = "_".join(table.parent.relative_to(home).parts)
        fig5(pd.read_csv(table), root / "fade" / "figures" / f"fig5_weights_{name}")


def by_label(ax, rows: pd.DataFrame, column: str, labels: list[str], color, shift=0.0, name=None):
    """Draw points of single runs and the mean of each label, by value on the horizontal axis."""
    at = rows.label.map({label: i for i, label in enumerate(labels)}) + shift
    ax.scatter(rows[column], at, s=12, color=color, alpha=0.5, linewidths=0)
    means = rows.groupby("label")[column].mean().reindex(labels)
    ax.scatter(means, np.arange(len(labels)) + shift, s=42, marker="|", color=color, label=name)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def fig5(tensors: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 5 left and Table 9 by method.

    The panels show the output head's share of the change, its s1/s2, its r1 beside the mean r1 of
    the inner matrices, and its srank.
    """
    keys = ["checkpoint", "label", "seed", "step"]
    head = tensors[tensors.part == HEAD][[*keys, *TITLES]]
    inner = tensors[tensors.part.str.startswith("layer")]
    inner = inner.groupby(keys, dropna=False, sort=False).rank1_fraction.mean()
    drawn = head.merge(inner.rename("inner_rank1_fraction").reset_index(), on=keys)
    labels = list(dict.fromkeys(drawn.label))
    figure, axes = panels(4, width=2.6, height=1.1 + 0.24 * len(labels), sharey=True)
    for ax, column in zip(axes[0], TITLES, strict=True):
        by_label(ax, drawn, column, labels, COLORS[0], name="output head")
        ax.set_xlabel(TITLES[column])
    by_label(axes[0, 2], drawn, "inner_rank1_fraction", labels, COLORS[1], 0.2, "inner matrices")
    legend(figure, axes[0, 2], 2)
    save(figure, path, drawn)
