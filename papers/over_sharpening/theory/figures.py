"""Figures of the checks: Z' and its bound, and the violations of Theorem 2.4."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, legend, panels, save


def partition(groups: pd.DataFrame, path: Path) -> None:
    """Draw Z' against Delta_pi of the simplified bound, and Z' of GRPO and IAC by success rate."""
    figure, axes = panels(2, width=4.0, height=3.1)
    shown = groups.iloc[:: max(1, len(groups) // 3000)]
    axes[0, 0].plot(shown["gap"], np.log10(shown["Z"]), ".", ms=2, alpha=0.4)
    axes[0, 0].axhline(0, color="0.4", lw=1)
    axes[0, 0].axvline(0, color="0.4", lw=1)
    axes[0, 0].set(
        xlabel=r"$\Delta_\pi$",
        ylabel=r"$\log_{10} Z'$",
        title=r"$Z' > 1$ also where $\Delta_\pi < 0$",
    )
    axis, rows = axes[0, 1], []
    names = {"Z": "GRPO", "Z_iac": "IAC", "Z_iac_equalised": "IAC, equal largest weight"}
    eights = groups[groups["G"] == 8]
    for (column, label), color in zip(names.items(), COLORS, strict=False):
        middle = eights.groupby("p")[column].quantile([0.25, 0.5, 0.75]).unstack()
        axis.plot(middle.index, np.log10(middle[0.5]), "o-", ms=3, color=color, label=label)
        axis.fill_between(
            middle.index,
            np.log10(middle[0.25]),
            np.log10(middle[0.75]),
            color=color,
            alpha=0.15,
            lw=0,
        )
        quartiles = middle.reset_index().set_axis(["p", "q25", "q50", "q75"], axis=1)
        rows.append(quartiles.assign(panel="b", which=label))
    axis.axhline(0, color="0.4", lw=1)
    axis.set(
        xlabel="success rate of the group",
        ylabel=r"$\log_{10} Z'$",
        title="G = 8: median and quartiles",
    )
    axis.legend(fontsize=7)
    rows.append(shown[["gap", "Z"]].assign(panel="a"))
    save(figure, path, pd.concat(rows, ignore_index=True))


def coupling(coupled: pd.DataFrame, path: Path) -> None:
    """Draw the share of instances that violate Theorem 2.4's two bounds, by coupling, spread and
    repeats. Settings where fewer than 50 instances meet its assumptions are left out."""
    shown = [(name, repeats) for repeats in (False, True) for name in ("case 1", "case 2")]
    figure, axes = panels(4, width=2.7, height=2.7, sharey=True)
    frame = coupled.assign(share=coupled["violated"] / coupled["cases"])
    frame = frame[frame["cases"] >= 50]
    drawn = []
    for axis, (name, repeats) in zip(axes[0], shown, strict=True):
        panel = frame[frame["statement"].str.startswith(name) & (frame["repeats"] == repeats)]
        for width, color in zip(frame["width"].unique(), COLORS, strict=False):
            rows = panel[panel["width"] == width]
            for G, style in zip((4, 32), ("-", "--"), strict=True):
                line = rows[rows["G"] == G]
                label = f"norms ±{width:g}, G = {G}"
                axis.plot(
                    line["coupling"],
                    100 * line["share"],
                    style,
                    color=color,
                    marker="o",
                    ms=3,
                    label=label,
                )
        batch = "repeated modes" if repeats else "distinct modes"
        axis.set(xlabel=r"coupling $c$", title=f"{name}, {batch}")
        drawn.append(panel)
    axes[0, 0].set(ylabel="violated (%)")
    legend(figure, axes[0, 0], 6, fontsize=7, handlelength=4)
    save(figure, path, pd.concat(drawn))
