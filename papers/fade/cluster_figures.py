"""Draw Figs. 1, 3 middle and right, 4 to 6, 8 left and 9 to 14 from cluster rows: cells of the
comparison, logs of training runs, weight changes, and LiveCodeBench v6 at checkpoints. A figure
that lacks rows is left out and names them. Figs. 1, 6 left, 9 and 13 need SCALE=cluster_curves,
Fig. 14 needs SCALE=cluster_fig14. `rlvr compare paper=fade` and the last job of a sweep run it.

A figure with several methods of one family (the deltas of AsymGRPO, FADE's targets and ablations)
has colours of its own, because the palette has one colour a family.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison.cluster_figures import (
    PREFIX,
    Curve,
    Figure,
    about,
    along,
    chosen,
    legend_handles,
    once,
    whiskers,
)
from common.comparison.gather import Gathered
from common.comparison.training import logged, phases
from common.palette import COLORS, colors, look
from common.plotting import legend, panels, save
from papers.fade.fits import figures as fitted
from papers.fade.fits import tables

V6, SMALL, LARGE = "LiveCodeBench v6", "Qwen 2.5 7B", "CWM 32B"
BEST = ("FADE H*=1.0", "GRPO", "Power alpha=2", "AsymGRPO delta=0.5")
# with the pass@k-driven methods, which do not lose the slope b in training (Fig. 6 left)
LAWS = (*BEST, "pass@4 (Chen)", "pass@1 and pass@4 (Chen)")
APART = tuple(COLORS[i] for i in (1, 6, 2, 3, 0, 5))  # FADE first, in its own
ABLATIONS = ("alpha only", "delta only", "both from entropy", "log schedule")
ABLATED = ("FADE H*=1.0", *(f"FADE ({name})" for name in ABLATIONS))
DELTAS = {f"AsymGRPO delta={delta:g}": delta for delta in (0.3, 0.5, 0.7, 1.5, 2)}
# method -> delta, which is 1 for the three sign-balanced methods at the end
SIGNS = DELTAS | dict.fromkeys(("mean GRPO", "GRPO", "Power alpha=2"), 1.0)
# method -> the solve rate p where its weight is largest: the mode of p q^alpha, or of p^alpha q
FOCUS = {"Power alpha=3": 1 / 4, "Power alpha=2": 1 / 3, "mean GRPO": 1 / 2}
FOCUS |= {"Power easy alpha=2": 2 / 3}
RATES = ("mean GRPO", "Power alpha=3", "AsymGRPO delta=0.5", "pass@4 (Chen)")  # Fig. 14
PASS = [Curve(f"{V6}, pass@{k}", benchmark=V6, metric=f"pass@{k}") for k in (1, 10, 100)]
ENTROPY = [Curve("entropy (nats)", column="entropy")]
# Fig. 3 right and Fig. 5 left: its methods, and what is drawn of the output head's weight change
BY_DELTA = ("mean GRPO", *DELTAS)
BLUES, REDS = ("#053061", "#4393C3", "#92C5DE"), ("#F4A582", "#B2182B")  # below and above 1
RAMP = dict(zip(DELTAS, (*BLUES, *REDS), strict=True))
RAMP |= dict.fromkeys(("REINFORCE", "pass@4 (Chen)"), COLORS[4])  # never drawn together
HEAD = "output head"
RANK1 = [Curve(f"{HEAD}, rank1_fraction", benchmark=HEAD, metric="rank1_fraction")]
WEIGHED = ("GRPO", "mean GRPO", "Power alpha=2", "REINFORCE")
WEIGHED += tuple(f"AsymGRPO delta={delta}" for delta in ("0.3", "0.5", "0.7", "2"))
SPREAD = [Curve(f"{HEAD}, {name}", benchmark=HEAD, metric=name) for name in ("s1/s2", "srank")]
TARGETS = ("FADE H*=1.0", "FADE H*=1.3", "FADE H*=0.5", "FADE H*=H0/2")  # Fig. 8 left
CONTROLLER = [Curve("alpha", column="alpha"), Curve("delta", column="delta")]
STEP = "step: a rollout of 10 optimiser steps."


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw every figure whose rows exist into <root>/fade/figures/cluster_*.

    Return one Figure each: its caption, or the reason why it is left out. cells: the printed cells
    of the comparison, with step and samples; cluster: the gathered cluster runs.
    """
    rows, folder = cluster.rows, root / "fade" / "figures"
    fig14 = rows["table"] == "table_fig14"
    ours, several, weights = rows[~fig14], at_several_steps(rows[~fig14]), of_weights(rows)

    def curves(name: str, frame, methods, shown, about: str, model: str = SMALL) -> Figure:
        return along(root, "fade", frame, name=name, model=model, colors=hues(methods),
                     curves=shown, about=f"{about}, {model}; {STEP}")  # fmt: skip

    made = [
        fig6(cells, "7b", SMALL, folder),
        fig6(cells, "32b", LARGE, folder),
        curves("fig3_right", weights, BY_DELTA, RANK1, "Fig. 3 right: the output head's weight "
               "change, its largest singular value's share of the sum of squares, percent"),
        curves("fig5", weights, WEIGHED, SPREAD, "Fig. 5 left: the output head's weight change; "
               "srank with delta 0.01, which the paper does not print"),
        curves("fig8", rows, TARGETS, CONTROLLER, "Fig. 8 left: what the controller chose"),
        curves("fig1_7b", several, BEST, PASS, "Fig. 1: pass@k over training"),
        curves("fig1_32b", several, BEST, PASS, "Fig. 1: pass@k over training", LARGE),
        curves("fig3_entropy", ours, BY_DELTA, ENTROPY, "Fig. 3 middle: entropy by delta"),
        signs(root, ours, folder),
        focus(ours, folder),
        curves("fig9", several, ABLATED, PASS, "Fig. 9: the ablations"),
        curves("fig14_equalised", ours, RATES, ENTROPY, "Fig. 14: equalised learning rates"),
        curves("fig14_same", rows[fig14], RATES, ENTROPY, "Fig. 14: one learning rate"),
    ]  # fmt: skip
    return made + laws(cluster.counts, folder)


def hues(methods: tuple[str, ...]) -> dict[str, str]:
    """Return the colours of methods that are drawn together."""
    own = dict(zip(methods, APART, strict=False)) if methods in (TARGETS, ABLATED, LAWS) else {}
    ramp = {method: RAMP[method] for method in methods if method in RAMP}
    return colors(methods) | (ramp if len(ramp) > 1 else {}) | own


def fig6(cells: pd.DataFrame, size: str, model: str, folder: Path) -> Figure:
    """Draw Fig. 6 right: pass@100 against pass@1 for the methods of Table 3."""
    wanted = [
        {"table": "table3", "model": model, "metric": metric} for metric in ("pass@1", "pass@100")
    ]

    def picture(found: pd.DataFrame) -> str:
        methods = list(dict.fromkeys(found["method"]))
        by_method = colors(methods)
        figure, axes = panels(1, width=5.2, height=3.2)
        axis = axes[0, 0]
        for method, color in by_method.items():
            own = found[found["method"] == method].set_index("metric")
            one, hundred = own.loc["pass@1"], own.loc["pass@100"]
            width = [[one["rerun"] - one["low"]], [one["high"] - one["rerun"]]]
            whiskers(axis, own.loc[["pass@100"]].assign(printed=np.nan), [one["rerun"]], color)
            axis.errorbar([one["rerun"]], [hundred["rerun"]], xerr=width, color=color,
                          elinewidth=0.7, capsize=1.5)  # fmt: skip
            axis.plot([one["printed"]], [hundred["printed"]], "D", color=color,
                      markerfacecolor="none", markersize=6)  # fmt: skip
        axis.set(xlabel="pass@1 (%)", ylabel="pass@100 (%)")
        handles = legend_handles(axis, by_method)
        figure.legend(handles=handles, loc="outside right upper", fontsize=8)
        save(figure, folder / f"{PREFIX}fig6_{size}", found)
        return f"Fig. 6 right: LiveCodeBench v6, {model}. {about(found)}"

    return once(f"fig6_{size}", *chosen(cells, wanted), picture)


def of_weights(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the output head's weight change along training, without the step in the
    metric's name, as rows of the benchmark HEAD."""
    parts = rows["metric"].str.split(", step ", expand=True).reindex(columns=[0, 1])
    return rows.assign(metric=parts[0], benchmark=HEAD)[parts[1].notna()]


def at_several_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the runs whose pass@100 was measured at two or more steps.

    A run that was measured at a single step has no curve.
    """
    key = ["model", "method", "seed"]
    hundred = rows[(rows["benchmark"] == V6) & (rows["metric"] == "pass@100")]
    steps = hundred.groupby(key)["step"].nunique()
    return rows[pd.MultiIndex.from_frame(rows[key]).isin(steps.index[steps > 1])]


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
    for axis, ((x, y), words) in zip(axes[0], shown.items(), strict=True):
        for method, color in hues(tuple(SIGNS)).items():
            style = dict(marker=look(method).marker, ls="", ms=5, color=color, label=method)
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
    counts = counts[(counts["benchmark"] == V6) & (counts["n"] >= 100)]
    mine = counts[counts["model"] == SMALL]
    base = mine[mine["method"] == "SFT"].assign(method="base", step=0)
    trained = mine[mine["method"].isin(LAWS)]
    steps = trained.groupby("method")["step"].nunique().reindex(list(LAWS)).fillna(0)
    last = trained[trained["step"] == trained.groupby("method")["step"].transform("max")]
    last = last[last["method"].isin(BEST)]
    no_base = ["SFT"] if base.empty else []
    missing = [*no_base, *(name for name in BEST if not steps[name])]
    short = list(dict.fromkeys([*no_base, *steps.index[steps < 2]]))
    both = pd.concat([base, trained[trained["step"].isin(spread(trained["step"]))]])
    fits = both if short else tables.coefficients(both)
    hue = hues(LAWS)
    pictures = {
        "fig6_left": (short, "", lambda path: fitted.coefficients(fits, hue, path)),
        "fig13": (short, "", lambda path: fitted.curves(both, fits, hue, path)),
        "fig11": (missing, "", lambda path: fitted.budgets(last, hue, path)),
        "fig12": (missing, "thirds by SFT's solve rate; ",
                  lambda path: fitted.difficulty(base, last, hue, path)),
    }  # fmt: skip
    made = [
        counted(name, lost, SMALL, f"{more}fits: common/metrics/fits.py", draw_it, folder)
        for name, (lost, more, draw_it) in pictures.items()
    ]
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
