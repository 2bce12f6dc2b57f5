"""Figures of the weight changes (FADE Fig. 5, Tables 9 and 12), each with its CSV. A figure whose
table is missing is left out. Points are single runs; vertical marks are their means over seeds."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, panels, save
from papers.fade.weights.tables import HEAD, THIRDS

MATRIX = ("s1_over_s2", "rank1_fraction", "srank")
TITLES = {
    "energy_share": "output head, % of ||Delta||^2",
    "s1_over_s2": "output head, s1/s2",
    "rank1_fraction": "rank-1 fraction r1",
    "srank": "output head, srank",
}


def draw(root: Path) -> list[Path]:
    """Draw every figure for which `root` has the tables; return their paths without suffix."""
    folder, made = root / "fade" / "figures", []
    for geometry in sorted((root / "fade" / "geometry").glob("**/tensors.csv")):
        name = "_".join(geometry.parent.relative_to(root / "fade" / "geometry").parts)
        tables = {
            table: pd.read_csv(geometry.with_name(f"{table}.csv"))
            for table in ("tensors", "similarity")
        }
        made += [
            fig5(tables["tensors"], folder / f"fig5_weights_{name}"),
            similarity(tables, folder / f"weights_similarity_{name}"),
        ]
        if tables["tensors"].step.nunique() > 1:
            thirds = pd.read_csv(geometry.with_name("thirds.csv"))
            made.append(table12(thirds, folder / f"table12_alignment_{name}"))
    return made


def last_steps(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each run's last checkpoint, or all rows if no checkpoint has a step."""
    if table.step.isna().all():
        return table.assign(label=table.checkpoint)
    last = table.groupby(["label", "seed"], dropna=False).step.transform("max")
    return table[table.step == last]


def by_label(ax, rows: pd.DataFrame, column: str, labels: list[str], color, shift=0.0, name=None):
    """Draw points of single runs and the mean of each label, by value on the horizontal axis."""
    at = rows.label.map({label: i for i, label in enumerate(labels)}) + shift
    ax.scatter(rows[column], at, s=12, color=color, alpha=0.5, linewidths=0)
    means = rows.groupby("label")[column].mean().reindex(labels)
    ax.scatter(means, np.arange(len(labels)) + shift, s=42, marker="|", color=color, label=name)
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def fig5(tensors: pd.DataFrame, path: Path) -> Path:
    """Draw Fig. 5 left and Table 9 by method, at each run's last checkpoint.

    The panels show the output head's share of the change, its s1/s2, its r1 beside the mean r1 of
    the inner matrices, and its srank.
    """
    rows = last_steps(tensors)
    keys = ["checkpoint", "label", "seed", "step"]
    head = rows[rows.part == HEAD][[*keys, "energy_share", *MATRIX]]
    inner = rows[rows.part.str.startswith("layer")]
    inner = inner.groupby(keys, dropna=False, sort=False).rank1_fraction.mean()
    drawn = head.merge(inner.rename("inner_rank1_fraction").reset_index(), on=keys)
    labels = list(dict.fromkeys(drawn.label))
    figure, axes = panels(4, width=2.6, height=1.1 + 0.24 * len(labels), sharey=True)
    for ax, column in zip(axes[0], TITLES, strict=True):
        by_label(ax, drawn, column, labels, COLORS[0], name="output head")
        ax.set_xlabel(TITLES[column])
    by_label(axes[0, 2], drawn, "inner_rank1_fraction", labels, COLORS[1], 0.2, "inner matrices")
    axes[0, 2].legend(fontsize=7)
    save(figure, path, drawn)
    return path


def similarity(tables: dict[str, pd.DataFrame], path: Path) -> Path:
    """Draw the cosine of the whole weight changes of every two runs (Sec. 15.1), by method."""
    kept = last_steps(tables["tensors"]).drop_duplicates("checkpoint")
    order = kept.sort_values(["label", "seed"], kind="stable")
    names = list(order.checkpoint)
    texts = [
        one.label if pd.isna(one.seed) else f"{one.label} s{one.seed:.0f}"
        for one in order.itertuples()
    ]
    pairs = tables["similarity"]
    pairs = pairs[pairs.a.isin(names) & pairs.b.isin(names)]
    grid = pd.DataFrame(np.eye(len(names)), names, names)
    for pair in pairs.itertuples():
        grid.loc[pair.a, pair.b] = grid.loc[pair.b, pair.a] = pair.cosine
    side = 1.6 + 0.22 * len(names)
    figure, axes = panels(1, width=side + 0.8, height=side)
    ax = axes[0, 0]
    shown = ax.imshow(grid, vmin=-1, vmax=1, cmap="RdBu_r")
    ax.set_xticks(range(len(names)), texts, rotation=90, fontsize=7)
    ax.set_yticks(range(len(names)), texts, fontsize=7)
    ax.grid(visible=False)
    figure.colorbar(shown, ax=ax, shrink=0.8, label="cosine of weight changes")
    save(figure, path, pairs)
    return path


def table12(thirds: pd.DataFrame, path: Path) -> Path:
    """Draw Table 12 along training: |cos u| with the last checkpoint, for the output head and for
    each third of the layers."""
    drawn = thirds.groupby(["label", "step", "part"], sort=False)[["cos_u", "cos_v"]].mean()
    drawn = drawn.reset_index().sort_values(["label", "part", "step"])
    places = [part for part in (HEAD, *THIRDS) if drawn.part.eq(part).any()]
    figure, axes = panels(len(places), width=2.8, sharey=True)
    for ax, where in zip(axes[0], places, strict=True):
        part = drawn[drawn.part == where]
        for i, (label, line) in enumerate(part.groupby("label", sort=False)):
            ax.plot(line.step, line.cos_u, marker="o", ms=3, color=COLORS[i % 8], label=label)
        ax.set_xlabel("step")
        ax.set_title(where if where == HEAD else f"{where} layers")
    axes[0, 0].set_ylabel("|cos u| with the last step")
    axes[0, 0].legend(fontsize=6)
    save(figure, path, drawn)
    return path
