"""Figures of the exact tables: masses (Figs. 2 and 7) and entropy (Theorem 13.1)."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, panels, save

MASSES = {  # Fig. 2: title -> label -> (method, its arguments; None: all)
    "existing weights": {
        "GRPO": ("grpo", None),
        "mean GRPO": ("mean_only", None),
        "MaxRL": ("max_rl", None),
        "pass@4 (Tang)": ("pass_at_k_tang", "k=4"),
        "pass@4 (Chen)": ("pass_at_k_chen", None),
        "mix pass@1/4": ("pass_at_k_mix", None),
        "MC-GRPO": ("mc_grpo", None),
    },
    "difficulty axis: Power alpha": {
        "alpha=1": ("mean_only", None),
        "alpha=2": ("power_alpha", "alpha=2, normalise=1"),
        "alpha=3": ("power_alpha", "alpha=3, normalise=1"),
        "easy, alpha=2": ("easy_power", "alpha=2, normalise=1"),
    },
    "sign axis: AsymGRPO": {
        "delta=0.3": ("asym_grpo", "delta=0.3"),
        "delta=0.5": ("asym_grpo", "delta=0.5"),
        "delta=1": ("mean_only", None),
        "delta=2": ("asym_grpo", "delta=2"),
    },
}


def fig_2(table: pd.DataFrame, path: Path, G: int = 16) -> None:
    """Draw Fig. 2: masses against the solve rate. Lines are exact for groups of G, with m_F dashed
    where it differs from m_S; dots are the paper's closed form."""
    figure, axes = panels(3, width=3.3, height=3.9)
    for axis, (title, shown) in zip(axes[0], MASSES.items(), strict=True):
        for (label, (method, params)), color in zip(shown.items(), COLORS, strict=False):
            line = table[(table["method"] == method) & (table["G"] == G)]
            line = line[line["params"] == params] if params else line
            axis.plot(line["p"], line["m_S"], color=color, label=label)
            axis.plot(line["p"], line["closed_form_m_S"], ".", ms=3, color=color)
            if not np.allclose(line["m_S"], line["m_F"]):
                axis.plot(line["p"], line["m_F"], "--", color=color)
                axis.plot(line["p"], line["closed_form_m_F"], ".", ms=3, color=color)
        axis.set(xlabel="solve rate p", title=title, ylim=(0, None))
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize=7)
    axes[0, 0].set(ylabel=f"mass, G = {G}", ylim=(0, 1.05))
    key = {"m_S, and m_F where it is the same": "-", "m_F elsewhere": "--", "closed form": "."}
    lines = [axes[0, 0].plot([], [], style, color="black", label=x)[0] for x, style in key.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=8)
    save(figure, path, None)


def fig_7(table: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 7: variance of the estimated weight by solve rate, exact and by delta method."""
    figure, axes = panels(1, width=4.2, height=3.0)
    axis = axes[0, 0]
    for (alpha, line), color in zip(table.groupby("alpha"), COLORS, strict=False):
        axis.plot(line["p"], line["exact"], color=color, label=f"alpha={alpha:g}")
        axis.plot(line["p"], line["delta_method"], ":", color=color)
    axis.set(
        xlabel="solve rate p", ylabel=r"Var$(w(\hat{p}))$", title="16 rollouts; dotted: Eq. 30"
    )
    axis.legend()
    save(figure, path, table)


def entropy(table: pd.DataFrame, path: Path) -> None:
    """Draw Theorem 13.1: Eq. 7, and only -Cov, against the exact change by the natural step.

    The third panel shows mean changes by delta for the natural step, the plain step and Eq. 7, over
    the policies whose entropy the natural step lowers at delta = 1 and over the rest. The CSV has
    these means; the points are those of `table`.
    """
    figure, axes = panels(3, width=3.2, height=3.6)
    for axis, column, title in (
        (axes[0, 0], "eq_7", "Eq. 7"),
        (axes[0, 1], "minus_cov", "$-$Cov(A, log $\\pi$) alone"),
    ):
        for (delta, points), color in zip(table.groupby("delta"), COLORS, strict=False):
            shown = points.iloc[::2]
            label = rf"$\delta$={delta:g}"
            axis.plot(shown["natural"], shown[column], ".", ms=3, color=color, label=label)
        reach = table["natural"].abs().max()
        axis.plot([-reach, reach], [-reach, reach], color="0.6", lw=0.8)
        axis.set(xlabel=r"exact $\Delta H / \eta$, natural step", ylabel=title, title=title)
    below = dict(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=7)
    axes[0, 0].legend(**below, ncols=3, markerscale=2)
    axis, rows = axes[0, 2], []
    falls = table.loc[(table["delta"] == 1) & (table["natural"] < 0), "instance"]
    panel = table["instance"].isin(falls).map({True: "falls", False: "rises"})
    groups = {
        "falls": ("-", r"entropy falls at $\delta$=1"),
        "rises": (":", r"rises at $\delta$=1"),
    }
    shown = {"natural": "natural step", "plain": "plain step", "eq_7": "Eq. 7"}
    for (column, label), color in zip(shown.items(), (0, 1, 3), strict=True):
        for name, (style, _) in groups.items():
            mean = table[panel == name].groupby("delta")[column].mean().rename("mean")
            axis.plot(mean.index, mean, style, marker="o", ms=3, color=COLORS[color])
            rows.append(mean.reset_index().assign(panel=name, which=column))
        axis.plot([], [], color=COLORS[color], label=label)
    for style, label in groups.values():
        axis.plot([], [], style, color="black", label=label)
    axis.axhline(0, color="0.4", lw=0.8)
    axis.set(xlabel=r"$\delta$", ylabel=r"mean $\Delta H / \eta$", title="mean by delta")
    axis.legend(**below, ncols=2)
    save(figure, path, pd.concat(rows)[["panel", "which", "delta", "mean"]])
