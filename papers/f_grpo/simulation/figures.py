"""Figure 4 of F-GRPO (App. J) and two figures that the paper does not have, drawn from the rows of
the simulation."""

from pathlib import Path

import pandas as pd

from common.errors import UserError
from common.plotting import COLORS, band, legend, panels, plt, save

SHOWN = (2, 16, 128, 1024, 8192, 32768, 131072)  # N of the curves against the step
MATCHED = (64, 128, 1024, 8192, 16384, 32768)  # N whose curves leave their start
OBJECTIVES = ("score", "printed", "eq7")
OPTIMIZERS = {"sgd": (":", "o"), "adam": ("-", "s"), "adamw": ("--", "^")}  # line, marker
DASH = {0: "-", 1: "--"}  # gamma -> line
LABELS = {"Q_pos": "correct mass $Q_{pos}$", "M_ret": "retained mass $M_{ret}$"}


def draw(simulation: Path, folder: Path) -> None:
    """Draw every figure of the tables in the folder `simulation` into `folder`."""
    figure(
        *(pd.read_csv(simulation / f"{name}.csv.gz") for name in ("final", "trajectory")), folder
    )


def figure(
    final: pd.DataFrame, trajectory: pd.DataFrame, folder: Path, reading: str = "score_adam"
) -> None:
    """Save fig4, fig4_matched and, if there are several readings, fig4_readings: pdf, png and csv.

    A reading is one choice of objective and optimiser (tables.py). `final` and `trajectory` are the
    tables that the simulation writes. fig4 has the paper's panels: (a) Q_pos and (b) M_ret against
    the step at gamma = 0, (c) both after the last step against N. fig4_matched plots M_ret against
    Q_pos along training, because gamma = 1 also slows Q_pos down and equal steps are not equal
    progress. Lines are means over seeds and bands are their range; fig4_matched has one line per
    seed. The paper's shading of a "concentration zone" is left out, because its edges are not
    defined. Raises UserError if `reading` has no rows.
    """
    paths = trajectory[trajectory["reading"] == reading]
    if paths.empty:
        known = ", ".join(sorted(trajectory["reading"].unique())) or "none"
        raise UserError(
            f"reading={reading}: no rows; run the simulation with it, or choose from: {known}"
        )
    last = final[final["reading"] == reading]
    _figure4(last, paths, folder)
    _matched(paths, folder)
    if final["reading"].nunique() > 1:
        _readings(final, folder)


def _figure4(last: pd.DataFrame, trajectory: pd.DataFrame, folder: Path) -> None:
    fig, axes = panels(3)
    drawn = []
    gamma = min(trajectory["gamma"])
    sizes = _shown(trajectory, SHOWN)
    for axis, letter, metric in zip(axes[0], "ab", LABELS, strict=False):
        curves = trajectory[(trajectory["gamma"] == gamma) & trajectory["N"].isin(sizes)]
        for N, rows in _spread(curves, metric, ["N", "step"]).groupby("N"):
            band(axis, rows["step"], rows, _color(N, sizes), label=f"{N:,}")
            drawn.append(rows.assign(panel=letter, metric=metric, gamma=gamma))
        axis.set(xlabel="step", ylabel=LABELS[metric], ylim=(-0.03, 1.03))
        axis.set_title(f"({letter}) $\\gamma$ = {gamma:g}")
    axes[0, 1].legend(title="group size $N$", fontsize=7, title_fontsize=7, ncols=2)
    axis = axes[0, 2]
    for (metric, label), color in zip(LABELS.items(), COLORS, strict=False):
        for gamma, rows in _spread(last, metric, ["gamma", "N"]).groupby("gamma"):
            name = f"{label.split()[-1]}, $\\gamma$ = {gamma:g}"
            style = {"ls": DASH.get(gamma, ":"), "marker": "o", "ms": 2.5, "label": name}
            band(axis, rows["N"], rows, color, **style)
            drawn.append(rows.assign(panel="c", metric=metric))
    _group_size_axis(axis)
    axis.set(ylabel="after the last step", ylim=(-0.03, 1.03), title="(c) final")
    axis.legend(fontsize=7, handlelength=3.2)
    columns = ["panel", "metric", "gamma", "N", "step", "mean", "low", "high"]
    save(fig, folder / "fig4", pd.concat(drawn, ignore_index=True)[columns])


def _matched(trajectory: pd.DataFrame, folder: Path) -> None:
    sizes = _shown(trajectory, MATCHED)
    columns = ["N", "gamma", "seed", "step", "Q_pos", "M_ret"]
    rows = trajectory.loc[trajectory["N"].isin(sizes), columns]
    width = min(3, len(sizes))
    fig, axes = panels(width, -(-len(sizes) // width), 2.6, 2.3, sharex=True, sharey=True)
    for axis, N in zip(axes.flat, sizes, strict=False):
        for i, (gamma, runs) in enumerate(rows[rows["N"] == N].groupby("gamma")):
            style = {"color": COLORS[i % len(COLORS)], "ls": DASH.get(gamma, ":"), "lw": 1.1}
            for seed, line in runs.groupby("seed"):
                label = f"$\\gamma$ = {gamma:g}" if seed == 0 else None
                axis.plot(line["Q_pos"], line["M_ret"], label=label, **style)
                axis.plot(*line[["Q_pos", "M_ret"]].iloc[-1], "o", ms=4, color=style["color"])
        axis.set_title(f"$N$ = {N:,}")
        axis.set(xlabel="$Q_{pos}$", ylabel="$M_{ret}$", ylim=(-0.03, 1.03))
        axis.label_outer()
    for axis in axes.flat[len(sizes) :]:
        axis.set_axis_off()
    axes[0, 0].legend(loc="lower left")
    title = "Retained against total correct mass along training; one line a seed, dot: last step"
    fig.suptitle(title, fontsize=9)
    save(fig, folder / "fig4_matched", None)


def _readings(final: pd.DataFrame, folder: Path) -> None:
    gamma = min(final["gamma"])
    fig, axes = panels(3)
    drawn = []
    labels = LABELS | {"entropy": "entropy (nats)"}
    names = sorted(final["reading"].unique())
    for axis, (metric, label) in zip(axes[0], labels.items(), strict=True):
        table = _spread(final[final["gamma"] == gamma], metric, ["reading", "N"])
        for name in names:
            objective, optimizer = name.split("_")
            place = OBJECTIVES.index(
                objective
            )  # hollow marks in three sizes, so that coinciding lines show
            style = {"color": COLORS[place], "ms": 4 + 2.5 * place, "mfc": "none"}
            style |= dict(zip(("ls", "marker"), OPTIMIZERS[optimizer], strict=True))
            shown = table[table["reading"] == name]
            band(axis, shown["N"], shown, label=name, **style)
        drawn.append(table.assign(metric=metric, gamma=gamma))
        _group_size_axis(axis)
        axis.set(ylabel=label)
    legend(fig, axes[0, 0], 5)
    fig.suptitle(f"After the last step, $\\gamma$ = {gamma:g}", fontsize=9)
    columns = ["metric", "reading", "gamma", "N", "mean", "low", "high"]
    save(fig, folder / "fig4_readings", pd.concat(drawn, ignore_index=True)[columns])


def _spread(rows: pd.DataFrame, metric: str, by: list[str]) -> pd.DataFrame:
    """Return the mean, lowest and highest value over seeds."""
    return rows.groupby(by, as_index=False)[metric].agg(mean="mean", low="min", high="max")


def _shown(trajectory: pd.DataFrame, chosen: tuple) -> list[int]:
    present = sorted(trajectory["N"].unique())
    return [N for N in present if N in chosen] or present[:6]


def _color(N: int, sizes: list[int]):
    return plt.get_cmap("viridis")(0.92 * sizes.index(N) / max(1, len(sizes) - 1))


def _group_size_axis(axis) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xlabel("group size $N$")
