"""Figures of the laptop runs, their weight changes and hidden states, from result files alone.

    rlvr figures paper=fade [results_dir=results]

`python -m papers.fade.theory` draws the figures of the theory.
"""

from pathlib import Path

import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter

from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.comparison.laptop_figures import Colors, along, present
from common.palette import colors
from common.plotting import by_seed, legend, panels, save
from papers.fade import laptop
from papers.fade.fits import figures as fits
from papers.fade.fits.tables import METHODS
from papers.fade.hidden_states import figures as hidden_states
from papers.fade.weights import figures as weights

MAIN = colors(METHODS)
ABLATION = colors(  # Fig. 9
    [
        "FADE",
        "FADE (alpha only)",
        "FADE (delta only)",
        "FADE (both from entropy)",
        "FADE (log schedule)",
    ]
)
AVERAGES = colors(["FADE", "FADE (EMA as printed)", "FADE (H*=0.25 H0)", "FADE (H*=H0)"])
DELTAS = {  # Figs. 3 and 4
    "AsymGRPO (delta=0.3)": 0.3,
    "AsymGRPO (delta=0.5)": 0.5,
    "AsymGRPO (delta=0.7)": 0.7,
    "mean GRPO": 1.0,
    "AsymGRPO (delta=1.5)": 1.5,
    "AsymGRPO (delta=2)": 2.0,
}
REGIMES = {  # Fig. 14: a method at the common learning rate -> the same at GRPO's largest weight
    "mean GRPO": "mean GRPO (equal max weight)",
    "Power (alpha=2)": "Power (alpha=2, equal max weight)",
    "AsymGRPO (delta=0.5)": "AsymGRPO (delta=0.5, equal max weight)",
    "FADE": "FADE (equal max weight)",
}
CONTROLLER = ("alpha", "delta", "p_hat", "H_hat")


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow, into <root>/fade/figures/."""
    folder = root / "fade" / "figures"
    rows, counts = read(root, "fade", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    for table in laptop_figures.tables(rows, MAIN):
        part = rows[(rows["table"] == table) | (rows["method"] == "base")]
        curves = laptop.read(root, table)
        controller(curves, AVERAGES, folder / f"{table}_fig8_controller")
        sign(curves, folder / f"{table}_fig4_sign")
        regimes(curves, folder / f"{table}_fig14_regimes")
        ablation(part, curves, folder / f"{table}_fig9_ablation")
        fits.draw(counts, table, MAIN, root)
    weights.draw(root)
    hidden_states.draw(root)


def controller(curves: pd.DataFrame, colors: Colors, path: Path) -> None:
    """Draw Fig. 8 left: alpha, delta, and the moving averages that set them, by step.

    Dots show the averaged values of FADE: the solve rate and the entropy of each step.
    """
    if curves[curves["method"].isin(colors)].empty:
        return
    figure, axes = panels(4, width=2.6, height=2.8)
    for axis, name in zip(axes[0], CONTROLLER, strict=True):
        by_seed(axis, curves, name, colors)
        axis.set(xlabel="step", title=name)
    axes[0, 1].set(ylim=(0.25, 1.05))
    fade = curves[curves["method"] == "FADE"]
    for axis, raw in ((axes[0, 2], "solve_rate"), (axes[0, 3], "entropy")):
        axis.plot(fade["step"], fade[raw], ".", ms=2, color="0.6", zorder=0)
    legend(figure, axes[0, 0], 4)
    save(figure, path, curves[curves["method"].isin(colors)])


def sign(curves: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 3 middle, entropy by step for several delta, and Fig. 4 left.

    Fig. 4 left shows the entropy of the last 20 steps against rho = delta p / q at the run's mean
    solve rate p, and against delta.
    """
    colors = dict(
        zip(DELTAS, ("#08306b", "#2171b5", "#6baed6", "#000000", "#fd8d3c", "#a63603"), strict=True)
    )
    drawn = curves[curves["method"].isin(DELTAS)]
    if drawn["method"].nunique() < 3:
        return
    figure, axes = panels(3, width=3.0, height=3.1)
    by_seed(axes[0, 0], drawn, "entropy", colors, line="-")
    axes[0, 0].set(xlabel="step", title="entropy (nats)", ylim=(0, None))
    rows = []
    for (method, seed), run in drawn.groupby(["method", "seed"]):
        last = run.tail(laptop.WINDOW)
        rate = run["solve_rate"].mean()
        delta = DELTAS[method]
        row = {"method": method, "seed": seed, "delta": delta, "solve_rate": rate}
        rho = delta * rate / (1 - rate)  # m_S p / (m_F q), sec 11.3
        rows.append(row | {"rho": rho, "entropy": last["entropy"].mean()})
    ends = pd.DataFrame(rows)
    for axis, name in ((axes[0, 1], "rho"), (axes[0, 2], "delta")):
        for method, color in present(ends, colors).items():
            points = ends[ends["method"] == method]
            axis.plot(points[name], points["entropy"], "o", ms=4, color=color, label=method)
        axis.set(xscale="log", xlabel=name, title="entropy of the last 20 steps")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    legend(figure, axes[0, 1], 3)
    ends["panel"] = "ends"
    kept = drawn[["method", "seed", "step", "entropy"]].assign(panel="by step")
    save(figure, path, pd.concat([kept, ends]))


def regimes(curves: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 14: entropy and solve rate at the same learning rate (solid lines) and with the
    largest weight of GRPO (dashed lines)."""
    shown = {a: b for a, b in REGIMES.items() if {a, b} <= set(curves["method"])}
    if not shown:
        return
    figure, axes = panels(2, width=3.5, height=3.2)
    for axis, name in zip(axes[0], ("entropy", "solve_rate"), strict=True):
        smooth = laptop.smoothed(curves, name)
        same = {"GRPO": MAIN["GRPO"]} | {a: MAIN[a] for a in shown}
        by_seed(axis, smooth, name, same, line="-")
        by_seed(axis, smooth, name, {b: MAIN[a] for a, b in shown.items()}, line="--")
        axis.set(xlabel="step", title=f"{name.replace('_', ' ')} (20-step mean)", ylim=(0, None))
    legend(figure, axes[0, 0], 2, fontsize=7)
    methods = ["GRPO", *shown, *shown.values()]
    save(figure, path, curves[curves["method"].isin(methods)])


def ablation(rows: pd.DataFrame, curves: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 9 for FADE's ablations: pass@1, diversity (pass@64) and entropy along training."""
    if len(present(rows, ABLATION)) < 2:
        return
    figure, axes = panels(3, width=3.0, height=3.2)
    shown = {"natural pass@1 (%)": ("natural", "pass@1"), "rare pass@64 (%)": ("rare", "pass@64")}
    drawn = along(axes[0], rows, ABLATION, shown)
    by_seed(axes[0, 2], laptop.smoothed(curves, "entropy"), "entropy", ABLATION)
    axes[0, 2].set(xlabel="step", title="entropy (nats, 20-step mean)", ylim=(0, None))
    legend(figure, axes[0, 0], 3)
    save(figure, path, drawn)
