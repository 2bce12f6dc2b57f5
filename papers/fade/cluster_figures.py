"""Figs. 4, 5 right, 6 and 10 to 13 from cluster rows: cells of the comparison, logs of training
runs and LiveCodeBench v6 at checkpoints. compare.yaml states the others, which are curves along
training. A figure that lacks rows is left out and names them. Figs. 6 left and 13 need
SCALE=cluster_curves.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison.cluster_figures import (
    PREFIX,
    PRINTED,
    Figure,
    about,
    chosen,
    legend_handles,
    whiskers,
)
from common.comparison.gather import Gathered
from common.comparison.spec import spec_of
from common.comparison.training import logged, phases
from common.palette import COLORS, colors, look
from common.plotting import legend, panels, save
from papers.fade.compare import CURVE, V6
from papers.fade.fits import figures as fitted
from papers.fade.fits import tables

SMALL, LARGE = "Qwen 2.5 7B", "CWM 32B"
BEST = ("FADE H*=1.0", "GRPO", "Power alpha=2", "AsymGRPO delta=0.5")
# with the pass@k-driven methods, which do not lose the slope b in training (Fig. 6 left); their
# colours are not the palette's, which has one a family
_LAWS = (*BEST, "pass@4 (Chen)", "pass@1 and pass@4 (Chen)")
LAWS = {name: COLORS[i] for name, i in zip(_LAWS, (1, 6, 2, 3, 0, 5), strict=True)}
DELTAS = {f"AsymGRPO delta={delta:g}": delta for delta in (0.3, 0.5, 0.7, 1.5, 2)}
# method -> delta, which is 1 for the two sign-balanced methods at the end
SIGNS = DELTAS | dict.fromkeys(("GRPO", "Power alpha=2"), 1.0)
# method -> the solve rate p where its weight is largest: the mode of p q^alpha, or of p^alpha q
FOCUS = {"Power alpha=3": 1 / 4, "Power alpha=2": 1 / 3, "GRPO": 1 / 2}
FOCUS |= {"Power easy alpha=2": 2 / 3}
STEP = "step: a rollout of 10 optimiser steps."


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw every figure whose rows exist into <root>/fade/figures/cluster_*.

    Return one Figure each: its caption, or the reason why it is left out. cells: the printed cells
    of the comparison, with step and samples; cluster: the gathered cluster runs.
    """
    rows, folder = cluster.rows, root / "fade" / "figures"
    rows = rows[rows["table"] != "table_fig14"]  # all at one learning rate
    return [
        fig6(cells, "7b", SMALL, folder),
        fig6(cells, "32b", LARGE, folder),
        signs(root, rows, folder),
        focus(rows, folder),
        *laws(cluster.counts, folder),
    ]


def fig6(cells: pd.DataFrame, size: str, model: str, folder: Path) -> Figure:
    """Draw Fig. 6 right: pass@100 against pass@1 for the methods of Table 3."""
    name, metrics = f"{PREFIX}fig6_{size}", ("pass@1", "pass@100")
    wanted = [{"table": "table3", "model": model, "metric": metric} for metric in metrics]
    found, left_out = chosen(cells, wanted)
    if left_out:
        return Figure(name, left_out=left_out)
    hues = colors(dict.fromkeys(found["method"]))
    figure, axes = panels(1, width=5.2, height=3.2)
    axis = axes[0, 0]
    for method, color in hues.items():
        own = found[found["method"] == method].set_index("metric")
        one, hundred = own.loc["pass@1"], own.loc["pass@100"]
        width = [[one["rerun"] - one["low"]], [one["high"] - one["rerun"]]]
        whiskers(axis, own.loc[["pass@100"]].assign(printed=np.nan), [one["rerun"]], color)
        axis.errorbar([one["rerun"]], [hundred["rerun"]], xerr=width, color=color,
                      elinewidth=0.7, capsize=1.5)  # fmt: skip
        axis.plot([one["printed"]], [hundred["printed"]], **PRINTED, color=color)
    axis.set(xlabel="pass@1 (%)", ylabel="pass@100 (%)")
    figure.legend(handles=legend_handles(axis, hues), loc="outside right upper", fontsize=8)
    save(figure, folder / name, found)
    return Figure(name, f"Fig. 6 right: {V6}, {model}. {about(found)}")


def last_of(rows: pd.DataFrame, metric: str) -> pd.Series:
    """Return the metric on V6 at the last measured step, indexed by method (SMALL model only)."""
    found = rows[(rows["model"] == SMALL) & (rows["benchmark"] == V6) & (rows["metric"] == metric)]
    return found.sort_values("step").groupby("method")["value"].last()


def lacking(name: str, methods, *found: pd.Series) -> Figure | None:
    missing = sorted({m for m in methods if any(m not in one.index for one in found)})
    said = f"rows without a curve: {', '.join(missing)} of {SMALL}"
    return Figure(PREFIX + name, left_out=said) if missing else None


def signs(root: Path, rows: pd.DataFrame, folder: Path) -> Figure:
    """Draw Fig. 4: entropy against the ratio of gradient masses, and pass@100 and the learning
    speed against entropy.

    Entropy and solve rate p are means over the last tenth of training; the ratio is
    delta p / (1 - p). The speed is the mean solve rate over the first tenth, since all runs start
    from one model (our reading: the paper defines none).
    """
    mine = rows[(rows["model"] == SMALL) & rows["method"].isin(list(SIGNS))]
    found = logged(root, "fade", mine, lambda log: phases(log, ["entropy", "reward"]))
    value = found.pivot_table(index="method", columns="metric", values="value")
    wanted = {"entropy": "entropy_last", "reward": "reward_last", "speed": "reward_first"}
    parts = {name: value.get(metric, pd.Series(dtype=float)) for name, metric in wanted.items()}
    parts["pass@100"] = last_of(rows, "pass@100")
    if left := lacking("fig4", SIGNS, *parts.values()):
        return left
    table = pd.DataFrame(parts).loc[list(SIGNS)]
    p = table["reward"]  # rewards are 1 or 0, so their mean is the solve rate
    table["ratio"] = pd.Series(SIGNS) * p / (1 - p)
    figure, axes = panels(3, width=3.0, height=2.8)
    shown = {
        ("ratio", "entropy"): ("m_S p / (m_F (1 - p))", "entropy (nats)"),
        ("entropy", "pass@100"): ("entropy (nats)", "pass@100 (%)"),
        ("entropy", "speed"): ("entropy (nats)", "solve rate, first tenth"),
    }
    hues = colors(SIGNS) | spec_of("fade").figures["fig3_entropy"].colors
    for axis, ((x, y), words) in zip(axes[0], shown.items(), strict=True):
        for method in SIGNS:
            style = dict(marker=look(method).marker, ls="", ms=5, color=hues[method], label=method)
            axis.plot(table[x][method], table[y][method], **style)
        axis.set(**dict(zip(("xlabel", "ylabel"), words, strict=True)))
    legend(figure, axes[0, 0], 4)
    save(figure, folder / f"{PREFIX}fig4", table.rename_axis("method").reset_index())
    about = "Fig. 4: entropy of a training's last tenth by the sign ratio at its solve rate then"
    speed = "and pass@100 and the learning speed (the first tenth's solve rate, our reading) by it"
    return Figure(f"{PREFIX}fig4", f"{about}, {speed}; {V6}, {SMALL}.")


def focus(rows: pd.DataFrame, folder: Path) -> Figure:
    """Draw Fig. 5 right: pass@1 and pass@100 against the solve rate where the weight is largest."""
    found = {metric: last_of(rows, metric) for metric in ("pass@1", "pass@100")}
    if left := lacking("fig5_right", FOCUS, *found.values()):
        return left
    table = pd.DataFrame(found).loc[list(FOCUS)].assign(focus=pd.Series(FOCUS))
    table = table.sort_values("focus").rename_axis("method").reset_index()
    figure, axes = panels(2, width=2.9, height=2.7)
    for axis, metric in zip(axes[0], found, strict=True):
        axis.plot(table["focus"], table[metric], "o-", color="0.3")
        axis.set(xlabel="solve rate of the largest weight", ylabel=f"{metric} (%)")
    save(figure, folder / f"{PREFIX}fig5_right", table)
    about = f"Fig. 5 right: {V6} by the focus of Power alpha and its easy counterpart, {SMALL}"
    return Figure(f"{PREFIX}fig5_right", f"{about}; each at its chosen step.")


def laws(counts: pd.DataFrame, folder: Path) -> list[Figure]:
    """Draw Figs. 6 left and 10 to 13: laws and densities fitted to counts."""
    counts = counts[counts["benchmark"].isin([V6, CURVE]) & (counts["n"] >= 100)]
    mine = counts[counts["model"] == SMALL]
    base = mine[mine["method"] == "SFT"].assign(method="base", step=0)
    trained = mine[mine["method"].isin(LAWS) & (mine["benchmark"] == CURVE)]
    steps = trained.groupby("method")["step"].nunique().reindex(list(LAWS)).fillna(0)
    last = mine[mine["method"].isin(BEST) & (mine["benchmark"] == V6)]
    no_base = ["SFT"] if base.empty else []
    missing = [*no_base, *(name for name in BEST if name not in set(last["method"]))]
    short = list(dict.fromkeys([*no_base, *steps.index[steps < 2]]))
    both = pd.concat([base, trained[trained["step"].isin(spread(trained["step"]))]])
    fits = both if short else tables.coefficients(both)
    pictures = {
        "fig6_left": (short, "", lambda path: fitted.coefficients(fits, LAWS, path)),
        "fig13": (short, "", lambda path: fitted.curves(both, fits, LAWS, path)),
        "fig11": (missing, "", lambda path: fitted.budgets(last, LAWS, path)),
        "fig12": (missing, "thirds by SFT's solve rate; ",
                  lambda path: fitted.difficulty(base, last, LAWS, path)),
    }  # fmt: skip
    made = [
        counted(name, lost, SMALL, f"{more}fits: common/metrics/fits.py", draw_it, folder)
        for name, (lost, more, draw_it) in pictures.items()
    ]
    counts = counts.drop_duplicates(["model", "method", "seed", "step", "problem_id"])
    made.append(fig10(counts, "7b", SMALL, folder))
    return [*made, fig10(counts, "32b", LARGE, folder)]


def fig10(counts: pd.DataFrame, size: str, model: str, folder: Path) -> Figure:
    """Draw Fig. 10: solve rates of the start model and at up to three checkpoints of GRPO."""
    mine = counts[counts["model"] == model]
    grpo, start = (mine[mine["method"] == method] for method in ("GRPO", "SFT"))
    lost = [name for name, part in (("SFT", start), ("GRPO", grpo)) if part.empty]
    shown = pd.concat([start.assign(step=0), grpo[grpo["step"].isin(spread(grpo["step"], 3))]])
    more = (
        "groups of 16 of 200 samples, for SFT and at checkpoints of GRPO, with fits by least "
        "squares. The paper has the training prompts, which no job samples again, and does not "
        "name the method"
    )
    draw_it = lambda path: fitted.solve_rates(shown, path)  # noqa: E731
    return counted(f"fig10_{size}", lost, model, more, draw_it, folder)


def counted(
    name: str, lost: list[str], model: str, more: str, draw_it: Callable, folder: Path
) -> Figure:
    """Draw a figure of counts, or return which methods' counts it lacks."""
    if lost:
        said = f"rows without counts: {', '.join(lost)} of {model}"
        return Figure(PREFIX + name, left_out=said)
    draw_it(folder / f"{PREFIX}{name}")
    number = name.removeprefix("fig").partition("_")[0] + " left" * name.endswith("left")
    return Figure(PREFIX + name, f"Fig. {number}: {V6}, {model}; {more}; {STEP}")


def spread(steps: pd.Series, most: int = 5) -> np.ndarray:
    """Return at most `most` of the steps, evenly spaced, including the first and the last."""
    every = np.sort(steps.unique())
    return every[np.linspace(0, max(0, len(every) - 1), min(most, len(every))).round().astype(int)]
