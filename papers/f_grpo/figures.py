"""Figure 4 of F-GRPO (App. J), drawn from the rows of the simulation: `rlvr figures paper=f_grpo`.
`python -m papers.f_grpo.theory` draws the figures of the theory."""

from pathlib import Path

import pandas as pd

from common.palette import GREY
from common.plotting import COLORS, band, panels, pyplot, save

MAIN = "score_adam"
SHOWN = (2, 16, 128, 1024, 8192, 32768, 131072)  # N of the curves against the step
DASH = {0: "-", 1: "--"}  # gamma -> line
LABELS = {"Q_pos": "correct mass $Q_{pos}$", "M_ret": "retained mass $M_{ret}$"}


def draw(root: Path) -> None:
    """Draw Fig. 4 of the reading MAIN into <root>/f_grpo/figures/, if the simulation's tables are
    there.

    A reading is one choice of objective and optimiser (simulation/tables.py). Fig. 4 has the
    paper's panels: (a) Q_pos and (b) M_ret against the step, (c) both after the last step against
    N, with gamma = 0 solid and gamma = 1 dashed. Lines are means over seeds and bands are their
    range. Of the paper's regimes, II (the "concentration zone", shaded) is drawn where M_ret at
    gamma = 0 is below 0.5; the paper does not define its edges.
    """
    simulation = root / "f_grpo" / "simulation"
    if not (simulation / "final.csv.gz").exists():
        return
    tables = (pd.read_csv(simulation / f"{name}.csv.gz") for name in ("final", "trajectory"))
    last, paths = (table[table["reading"] == MAIN] for table in tables)
    if paths.empty:
        return
    fig, axes = panels(3)
    drawn = []
    least = min(paths["gamma"])
    sizes = [N for N in SHOWN if N in set(paths["N"])]
    curves = paths[paths["N"].isin(sizes)]
    for axis, letter, metric in zip(axes[0], "ab", LABELS, strict=False):
        spread = _spread(curves, metric, ["gamma", "N", "step"])
        for (gamma, N), rows in spread.groupby(["gamma", "N"]):
            color = pyplot().get_cmap("viridis")(0.92 * sizes.index(N) / max(1, len(sizes) - 1))
            label = {"label": f"{N:,}"} if gamma == least else {"lw": 1.2}
            band(axis, rows["step"], rows, color, ls=DASH.get(gamma, ":"), **label)
            drawn.append(rows.assign(panel=letter, metric=metric))
        axis.set(xlabel="step", ylabel=LABELS[metric], ylim=(-0.03, 1.03), title=f"({letter})")
    axes[0, 1].legend(title="group size $N$", fontsize=7, title_fontsize=7, ncols=2)
    axis = axes[0, 2]
    for (metric, label), color in zip(LABELS.items(), COLORS, strict=False):
        for gamma, rows in _spread(last, metric, ["gamma", "N"]).groupby("gamma"):
            name = f"{label.split()[-1]}, $\\gamma$ = {gamma:g}"
            style = {"ls": DASH.get(gamma, ":"), "marker": "o", "ms": 2.5, "label": name}
            band(axis, rows["N"], rows, color, **style)
            drawn.append(rows.assign(panel="c", metric=metric))
    axis.set_xscale("log", base=2)
    _regimes(axis, _spread(last[last["gamma"] == least], "M_ret", ["N"]))
    axis.set(
        xlabel="group size $N$", ylabel="after the last step", ylim=(-0.03, 1.03), title="(c) final"
    )
    axis.legend(fontsize=7, handlelength=3.2)
    columns = ["panel", "metric", "gamma", "N", "step", "mean", "low", "high"]
    save(fig, root / "f_grpo" / "figures" / "fig4", pd.concat(drawn, ignore_index=True)[columns])


def _spread(rows: pd.DataFrame, metric: str, by: list[str]) -> pd.DataFrame:
    """Return the mean, lowest and highest value over seeds."""
    return rows.groupby(by, as_index=False)[metric].agg(mean="mean", low="min", high="max")


def _regimes(axis, retained: pd.DataFrame) -> None:
    """Shade the group sizes whose M_ret is below 0.5, and number the three regimes."""
    zone = retained.loc[retained["mean"] < 0.5, "N"]
    if len(zone):
        edges = [min(retained["N"]), min(zone) / 2**0.5, max(zone) * 2**0.5, max(retained["N"])]
        axis.axvspan(*edges[1:3], color=GREY, alpha=0.12, lw=0)
        for name, low, high in zip(("I", "II", "III"), edges, edges[1:], strict=False):
            axis.text((low * high) ** 0.5, 0.5, name, ha="center")
