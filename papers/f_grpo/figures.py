"""Figures of the laptop runs and of the simulation, drawn from result files alone.

    rlvr figures paper=f_grpo [results_dir=results]

`python -m papers.f_grpo.theory` draws the figures of the theory. The counterpart of Figs 1b and 1c
here is laptop_group_size.
"""

from pathlib import Path

import pandas as pd

from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.palette import colors
from common.plotting import dots, panels, save
from papers.f_grpo.simulation import figures as simulation_figures

SHORT = {
    "GRPO (N=2)": "N=2",
    "GRPO (N=8)": "N=8",
    "GRPO (N=32)": "N=32",
    "F-GRPO (N=8, gamma=0.5)": "F-GRPO\nγ=0.5",
    "F-GRPO (N=8, gamma=1)": "F-GRPO\nγ=1",
}
MAIN = colors(SHORT)


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow into <root>/f_grpo/figures/."""
    folder = root / "f_grpo" / "figures"
    simulation = root / "f_grpo" / "simulation"
    if (simulation / "final.csv.gz").exists():
        simulation_figures.draw(simulation, folder)
    rows, _ = read(root, "f_grpo", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    for table in laptop_figures.tables(rows, MAIN):
        group_size(rows[rows["table"] == table], folder / f"{table}_group_size")


def group_size(rows: pd.DataFrame, path: Path) -> None:
    """Draw the counterpart of Figs 1b and 1c: pass@1, pass@64 and the share of active groups by
    group size, with F-GRPO (N=8) beside them.

    A dot is one seed: its mean over the last checkpoints, which is also what the claims use.
    """
    ends = laptop_figures.late(rows)
    there = laptop_figures.present(ends, MAIN)
    figure, axes = panels(3, width=2.9)
    drawn = []
    shown = [("natural", "pass@1"), ("rare", "pass@64"), ("training", "active_groups")]
    for axis, (benchmark, metric) in zip(axes[0], shown, strict=True):
        hits = ends[ends["benchmark"].eq(benchmark) & ends["metric"].eq(metric)]
        dots(axis, hits, there, [SHORT[method] for method in there], fontsize=8)
        axis.set(title=f"{benchmark} {metric.replace('_', ' ')} (%)")
        drawn.append(hits[hits["method"].isin(list(there))])
    save(figure, path, pd.concat(drawn))
