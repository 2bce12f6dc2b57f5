"""Figures of the exact tables: masses (Figs. 2 and 7) and entropy (Theorem 13.1)."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, panels, save

EXISTING = {  # Fig. 2 left: the weights of earlier methods
    ("grpo", None): "GRPO",
    ("mean_only", None): "mean GRPO",
    ("max_rl", None): "MaxRL",
    ("pass_at_k_tang", "k=4"): "pass@4 (Tang)",
    ("pass_at_k_chen", None): "pass@4 (Chen)",
    ("pass_at_k_mix", None): "mix pass@1/4",
    ("mc_grpo", None): "MC-GRPO",
}
POWER = {
    ("mean_only", None): "alpha=1",
    ("power_alpha", "alpha=2, normalise=1"): "alpha=2",
    ("power_alpha", "alpha=3, normalise=1"): "alpha=3",
    ("easy_power", "alpha=2, normalise=1"): "easy, alpha=2",
}
ASYM = {
    ("asym_grpo", "delta=0.3"): "delta=0.3",
    ("asym_grpo", "delta=0.5"): "delta=0.5",
    ("mean_only", None): "delta=1",
    ("asym_grpo", "delta=2"): "delta=2",
}


def pick(table: pd.DataFrame, key: tuple[str, str | None], G: float) -> pd.DataFrame:
    method, params = key
    rows = table[(table["method"] == method) & (table["G"] == G)]
    return rows if params is None else rows[rows["params"] == params]


def fig_2(table: pd.DataFrame, path: Path, G: int = 16) -> None:
    """Draw Fig. 2: masses against the solve rate. Lines are exact for groups of G, with m_F dashed
    where it differs from m_S; dots are the paper's closed form."""
    figure, axes = panels(3, width=3.3, height=3.9)
    titles = ("existing weights", "difficulty axis: Power alpha", "sign axis: AsymGRPO")
    for axis, shown, title in zip(axes[0], (EXISTING, POWER, ASYM), titles, strict=True):
        for (key, label), color in zip(shown.items(), COLORS, strict=False):
            line = pick(table, key, G)
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
    one = table[table["delta"] == 1].set_index("instance")
    falls = one.index[one["natural"] < 0]
    shown = {"natural": "natural step", "plain": "plain step", "eq_7": "Eq. 7"}
    for (column, label), color in zip(shown.items(), (0, 1, 3), strict=True):
        for group, style in ((falls, "-"), (one.index.difference(falls), ":")):
            members = table[table["instance"].isin(group)]
            mean = members.groupby("delta")[column].mean()
            name = "falls" if group is falls else "rises"
            axis.plot(mean.index, mean, style, marker="o", ms=3, color=COLORS[color])
            rows.append(
                pd.DataFrame({"panel": name, "which": column, "delta": mean.index, "mean": mean})
            )
        axis.plot([], [], color=COLORS[color], label=label)
    for style, label in (("-", r"entropy falls at $\delta$=1"), (":", r"rises at $\delta$=1")):
        axis.plot([], [], style, color="black", label=label)
    axis.axhline(0, color="0.4", lw=0.8)
    axis.set(xlabel=r"$\delta$", ylabel=r"mean $\Delta H / \eta$", title="mean by delta")
    axis.legend(**below, ncols=2)
    save(figure, path, pd.concat(rows, ignore_index=True))
