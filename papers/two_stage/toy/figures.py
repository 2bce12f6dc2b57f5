"""Figures 1, 5, 6 and 7 of the two-stage paper, drawn from the toy's tables.

The paper's Figs. 1 and 5-7 print no numbers of their curves, so nothing is compared with them.
"""

import json
from pathlib import Path

import pandas as pd

from common.plotting import COLORS, band, panels, save

ACTIONS = {1: COLORS[0], 2: COLORS[1], 3: COLORS[2], 4: COLORS[3]}
ROLES = {1: "explored, r > 0", 2: "unexplored, best", 3: "explored, r = 0", 4: "fourth"}
VARIANTS = {  # (optimizer, method) -> title, ending of the file name
    ("sgd", "full"): ("plain step", ""),
    ("sgd", "negative"): ("plain step, -N", "_n"),
    ("adam", "full"): ("Adam", "_adam"),
    ("adam", "negative"): ("Adam, -N", "_adam_n"),
}


def draw(toy: Path, folder: Path) -> None:
    """Draw every figure of the tables in the folder `toy` into `folder`."""
    paths = pd.read_csv(toy / "paths.csv.gz")
    settings = json.loads((toy / "settings.json").read_text())
    seeds = f"{settings['seeds']} seeds"
    for figure, group in paths.groupby("figure", sort=False):
        cells = {cell["name"]: cell for cell in settings["figures"][figure]}
        if figure == "fig1":
            for variant, (title, ending) in VARIANTS.items():
                shown = _of(group, variant)
                if len(shown):
                    name = f"Fig. 1, {title}: mean, 10-90 % of {seeds}"
                    width = list(range(0, len(cells), 3))
                    rows = [[(variant, c) for c in list(cells)[i : i + 3]] for i in width]
                    grid(rows, shown, cells, name, folder / f"{figure}{ending}")
        else:
            there = [variant for variant in VARIANTS if len(_of(group, variant))]
            rows = [[(variant, c) for c in cells] for variant in there]
            name = f"Fig. {figure[3:].replace('_', ', held: ')}: mean, 10-90 % of {seeds}"
            grid(rows, group, cells, name, folder / figure)


def grid(rows: list[list], paths, cells: dict, name: str, path: Path) -> None:
    """Draw one panel for each (variant, cell). Dashed: the expected path of the plain step."""
    figure, axes = panels(len(rows[0]), len(rows), 2.7, 2.15, sharex=True, sharey=True)
    for line, row in zip(axes, rows, strict=True):
        for axis, (variant, cell) in zip(line, row, strict=True):
            part = _of(paths, variant)
            part = part[part["cell"] == cell]
            for action, curve in part.groupby("action"):
                step, color = curve["step"].clip(lower=0.9), ACTIONS[action]
                band(axis, step, curve, color, label=f"$a_{action}$ ({ROLES[action]})")
                axis.plot(step, curve["expected"], color=color, ls="--", lw=0.9)
            axis.set_xscale("log")
            axis.set(ylim=(-0.03, 1.03))
            axis.set_title(_title(cells[cell], VARIANTS[variant][0], len(rows) > 2), fontsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    for axis in axes[:, 0]:
        axis.set_ylabel(r"$\pi(a)$")
    labels = max((axis.get_legend_handles_labels() for axis in axes.flat), key=lambda x: len(x[1]))
    figure.legend(*labels, loc="outside lower center", ncols=min(4, len(rows[0])))
    dashed = any(variant[0] == "sgd" for row in rows for variant, _ in row)
    figure.suptitle(name + "; dashed: expected path" * dashed, fontsize=9)
    save(figure, path, None)


def _of(rows: pd.DataFrame, variant: tuple[str, str]) -> pd.DataFrame:
    return rows[(rows["optimizer"] == variant[0]) & (rows["method"] == variant[1])]


def _title(cell: dict, variant: str, many: bool) -> str:
    rewards, policy = (", ".join(f"{x:g}" for x in cell[key]) for key in ("rewards", "policy"))
    head = f"{variant}, {cell['name']}\n" if many else ""
    start = r"$\pi_0$" if cell["hold"] == "policy" else r"$\pi_0$ at $\tau$ = 1"
    return f"{head}r = ({rewards})\n{start}: ({policy})"
