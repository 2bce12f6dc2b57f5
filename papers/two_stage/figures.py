"""Figures 1, 5, 6 and 7 of the two-stage paper, drawn from the toy's tables:
`rlvr figures paper=two_stage`.

The paper's Figs. 1 and 5-7 print no numbers of their curves, so nothing is compared with them.
"""

import json
from pathlib import Path

import pandas as pd

from common.plotting import COLORS, band, legend, panels, save

ACTIONS = {1: COLORS[0], 2: COLORS[1], 3: COLORS[2], 4: COLORS[3]}
ROLES = {1: "explored, r > 0", 2: "unexplored, best", 3: "explored, r = 0", 4: "fourth"}
STEPS = {"sgd": ("plain step", ""), "adam": ("Adam", "_adam")}  # title, ending of the file name


def draw(root: Path) -> None:
    """Draw the figures of full gradients, one with each step, into <root>/two_stage/figures/, if
    the toy's tables are there. The paper's figures have no -N."""
    toy, folder = (root / "two_stage" / name for name in ("toy", "figures"))
    if not (toy / "settings.json").exists():  # written last
        return
    paths = pd.read_csv(toy / "paths.csv.gz")
    settings = json.loads((toy / "settings.json").read_text())
    full = paths[paths["method"] == "full"]
    for (figure, optimizer), group in full.groupby(["figure", "optimizer"], sort=False):
        cells, (step, ending) = settings["figures"][figure], STEPS[optimizer]
        name = f"Fig. {figure[3:].replace('_logits', ', initial logits held')}, {step}: mean and "
        name += f"10-90 % of {settings['seeds']} seeds" + "; dashed: expected path" * (not ending)
        grid(group, cells, 3 if figure == "fig1" else len(cells), name, folder / (figure + ending))


def grid(paths: pd.DataFrame, cells: list[dict], columns: int, name: str, path: Path) -> None:
    """Draw one panel for each cell. Its title has the settings in which the cells differ, and the
    figure's title those that they share. Dashed: the expected path of the plain step."""
    said = [_said(cell) for cell in cells]
    shared = [one for one in said[0] if all(one in other for other in said)]
    rows = -(-len(cells) // columns)  # titles and legend take 0.9 inches
    figure, axes = panels(columns, rows, 2.7, 2 + 0.9 / rows, sharex=True, sharey=True)
    for axis, cell, own in zip(axes.flat, cells, said, strict=True):
        part = paths[paths["cell"] == cell["name"]]
        for action, curve in part.groupby("action"):
            step, color = curve["step"].clip(lower=0.9), ACTIONS[action]
            band(axis, step, curve, color, label=f"$a_{action}$ ({ROLES[action]})")
            axis.plot(step, curve["expected"], color=color, ls="--", lw=0.9)
        axis.set(xscale="log", ylim=(-0.03, 1.03))
        axis.set_title("\n".join(one for one in own if one not in shared), fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    for axis in axes[:, 0]:
        axis.set_ylabel(r"$\pi(a)$")
    legend(figure, axes[0, 0], columns)
    figure.suptitle("\n".join([name, ", ".join(shared)]), fontsize=9)
    save(figure, path, None)


def _said(cell: dict) -> list[str]:
    """Return the settings of a cell as text."""
    rewards, policy = (", ".join(f"{x:g}" for x in cell[key]) for key in ("rewards", "policy"))
    start = r"$\pi_0$" if cell["hold"] == "policy" else r"$\pi_0$ ($\tau$ = 1)"
    said = [f"r = ({rewards})", f"{start} = ({policy})", f"G = {cell['G']}"]
    return [*said, rf"$\tau$ = {cell['temperature']:g}"]
