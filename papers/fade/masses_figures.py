"""Figures of masses.py's tables: FADE's Figs. 2 and 7, Table 1 as a figure, sec 14.1."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, panels, save

EXISTING = {  # Fig. 2 left: the weights before FADE's
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
    """The rows of one method, and of one set of arguments if it has several."""
    method, params = key
    own = table[(table["method"] == method) & (table["G"] == G)]
    return own if params is None else own[own["params"] == params]


def fig_2(table: pd.DataFrame, path: Path, G: int = 16) -> None:
    """Masses against the solve rate: exact for groups of G (lines; m_F dashed where it differs),
    and the paper's closed form (dots)."""
    figure, axes = panels(3, width=3.3, height=3.4)
    drawn = []
    titles = ("existing weights", "difficulty axis: Power alpha", "sign axis: AsymGRPO")
    for axis, shown, title in zip(axes[0], (EXISTING, POWER, ASYM), titles, strict=True):
        for (key, label), color in zip(shown.items(), COLORS, strict=False):
            own = pick(table, key, G)
            axis.plot(own["p"], own["m_S"], color=color, label=label)
            axis.plot(own["p"], own["closed_form_m_S"], ".", ms=3, color=color)
            if not np.allclose(own["m_S"], own["m_F"]):
                axis.plot(own["p"], own["m_F"], "--", color=color)
                axis.plot(own["p"], own["closed_form_m_F"], ".", ms=3, color=color)
            drawn.append(own.assign(panel=title, label=label))
        axis.set(xlabel="solve rate p", title=title, ylim=(0, None))
        axis.legend(fontsize=6.5)
    axes[0, 0].set(ylabel=f"mass, G = {G}; dots: closed form", ylim=(0, 1.05))
    save(figure, path, pd.concat(drawn))


def table_1(table: pd.DataFrame, path: Path) -> None:
    """Every method that the paper prints a form for: closed form (grey), exact for G = 8 and 16 and
    in the population limit; m_S above, m_F below."""
    own = table.dropna(subset=["closed_form_m_S"])
    keys = list(own.groupby(["method", "params"], sort=False).groups)
    columns = 7
    rows = -(-len(keys) // columns)
    figure, axes = panels(columns, rows, width=1.45, height=1.35, sharex=True)
    for axis, (method, params) in zip(axes.flat, keys, strict=False):
        one = own[(own["method"] == method) & (own["params"] == params)]
        for side, sign in (("m_S", 1), ("m_F", -1)):
            form = one[one["G"] == 8]
            axis.plot(form["p"], sign * form[f"closed_form_{side}"], color="0.75", lw=4)
            for G, color in ((8.0, COLORS[0]), (16.0, COLORS[1]), (np.inf, COLORS[6])):
                line = one[one["G"] == G]
                axis.plot(line["p"], sign * line[side], color=color, lw=0.9, label=f"G = {G:g}")
        short = params.replace("unbiased=1, epsilon=1e-06", "").strip(", ")
        axis.set_title(f"{method}\n{short}", fontsize=5.5)
        axis.tick_params(labelsize=5)
        axis.axhline(0, color="0.4", lw=0.6)
    for axis in axes.flat[len(keys) :]:
        axis.set_visible(False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles[:3],
        [*labels[:2], "population limit"],
        title="$m_S$ above, $-m_F$ below; grey: the closed form",
        loc="outside lower center",
        ncols=3,
    )
    save(figure, path, own)


def fig_7(table: pd.DataFrame, path: Path) -> None:
    """Variance of the estimated weight against the solve rate: exact, and the delta method."""
    figure, axes = panels(1, width=4.2, height=3.0)
    axis = axes[0, 0]
    for (alpha, own), color in zip(table.groupby("alpha"), COLORS, strict=False):
        axis.plot(own["p"], own["exact"], color=color, label=f"alpha={alpha:g}")
        axis.plot(own["p"], own["delta_method"], ":", color=color)
    axis.set(
        xlabel="solve rate p",
        ylabel=r"Var$(w(\hat{p}))$",
        title="16 rollouts; dotted: Eq. 30",
    )
    axis.legend()
    save(figure, path, table)


def best_alpha(table: pd.DataFrame, path: Path) -> None:
    """Sec 14.1: the best alpha and the sweet spot against the slope c of the signal."""
    figure, axes = panels(2, width=3.2)
    for (G, own), color in zip(table.groupby("G", sort=False), COLORS, strict=False):
        label = "known weights" if G == "inf" else f"G = {G:g}"
        axes[0, 0].plot(own["c"], own["alpha"], "o-", ms=3, color=color, label=label)
    axes[0, 0].set(xlabel="c of s(p) = exp(-c p)", title="best alpha")
    axes[0, 0].legend()
    one = table[table["G"] == "inf"]
    axes[0, 1].plot(one["c"], one["sweet_spot"], "o-", ms=3, color=COLORS[6])
    axes[0, 1].set(xlabel="c of s(p) = exp(-c p)", title="most informative solve rate")
    save(figure, path, table)
