"""Figs. 6 left and 10 to 13, from sample counts on LiveCodeBench v6 and the fits to them. Figs. 6
left and 13 need SCALE=cluster_curves."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import hypergeom

from common.comparison.cluster_figures import Drawn, need
from common.comparison.gather import Gathered
from common.metrics.fits import fit_beta, fit_power_law, power_law
from common.plotting import COLORS, legend, panels
from papers.fade.compare import CURVE, LARGE, SMALL, V6
from papers.fade.fits import tables

BEST = ("FADE H*=1.0", "GRPO", "Power alpha=2", "AsymGRPO delta=0.5")
# with the pass@k-driven methods, which do not lose the slope b in training (Fig. 6 left); their
# colours are not the palette's, which has one a family
_LAWS = (*BEST, "pass@4 (Chen)", "pass@1 and pass@4 (Chen)")
LAWS = {name: COLORS[i] for name, i in zip(_LAWS, (1, 6, 2, 3, 0, 5), strict=True)}
K = np.logspace(0, 2, 40)  # of the drawn curves
GROUP = 16  # samples behind a solve rate of Fig. 10
PASS_AT_K = "pass@k (%)"


def counts_of(cluster: Gathered, model: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the model's counts of 100 samples or more a problem, and those of its start."""
    counts = cluster.counts[(cluster.counts["model"] == model) & (cluster.counts["n"] >= 100)]
    counts = counts[counts["benchmark"].isin([V6, CURVE])]
    return counts, counts[counts["method"] == "SFT"].assign(method="base", step=0)


def along_training(cluster: Gathered) -> pd.DataFrame:
    """Return the counts of the start and of LAWS at up to five checkpoints."""
    counts, start = counts_of(cluster, SMALL)
    trained = counts[counts["method"].isin(LAWS) & (counts["benchmark"] == CURVE)]
    steps = trained.groupby("method")["step"].nunique()
    short = [method for method in LAWS if steps.get(method, 0) < 2]
    need(SMALL, "counts", ["SFT"] * start.empty + short)
    return pd.concat([start, trained[trained["step"].isin(spread(trained["step"], 5))]])


def after_training(cluster: Gathered) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the counts of the start and of BEST."""
    counts, start = counts_of(cluster, SMALL)
    last = counts[counts["method"].isin(BEST) & (counts["benchmark"] == V6)]
    lacking = [method for method in BEST if method not in set(last["method"])]
    need(SMALL, "counts", ["SFT"] * start.empty + lacking)
    return start, last


def spread(steps: pd.Series, most: int) -> np.ndarray:
    """Return at most `most` of the steps, evenly spaced, including the first and the last."""
    every = np.sort(steps.unique())
    return every[np.linspace(0, max(0, len(every) - 1), min(most, len(every))).round().astype(int)]


def caption(number: str, model: str = SMALL, more: str = "fits: common/metrics/fits.py") -> str:
    return f"Fig. {number}: {V6}, {model}; {more}; step: a rollout of 10 optimiser steps."


def fig6_left(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw a and b along training, from the base model (square), with 95 % intervals over problems
    after the last step."""
    fits = tables.coefficients(along_training(cluster))
    figure, axes = panels(1, width=4.6, height=3.4)
    axis, start = axes[0, 0], fits[fits["method"] == "base"]
    axis.plot(start["a"], start["b"], "s", color="black", ms=5, label="SFT")
    for method, color in LAWS.items():
        line = fits[fits["method"] == method].sort_values("step")
        points = pd.concat([start, line])
        axis.plot(points["a"], points["b"], "o-", ms=3, color=color, label=method)
        end = line.iloc[-1]
        bars = {
            f"{at}err": np.maximum(0, [[end[x] - end[f"{x}_low"]], [end[f"{x}_high"] - end[x]]])
            for at, x in (("x", "a"), ("y", "b"))
        }
        axis.errorbar(end["a"], end["b"], **bars, color=color, alpha=0.3)
    axis.set(xscale="log", xlabel="a (level)", ylabel="b (slope)")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("{x:g}")
    axis.tick_params(axis="x", which="both", labelsize=7)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    return figure, fits, caption("6 left")


def fig13(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw pass@k by k at the checkpoints of each method, later ones darker: measurements (dots)
    and the fitted law (lines)."""
    counts = along_training(cluster)
    steps = sorted(counts["step"].unique())
    shade = dict(zip(steps, np.linspace(0.15, 1, len(steps)), strict=True))
    figure, axes = panels(len(LAWS), width=2.3, height=2.6, sharey=True)
    drawn = []
    for axis, (method, color) in zip(axes[0], LAWS.items(), strict=True):
        for step, at in counts[counts["method"].isin([method, "base"])].groupby("step"):
            ks, values = tables.curves(at)
            mean, style = values.mean(0), dict(color=color, alpha=shade[step])
            axis.plot(K, 100 * power_law(K, *fit_power_law(ks, mean)[0]), **style)
            axis.plot(ks, 100 * mean, ".", ms=4, **style)
            frame = {"k": ks, "measured": 100 * mean, "method": method, "step": step}
            drawn.append(pd.DataFrame(frame))
        axis.set(xscale="log", xlabel="k")
        axis.set_title(method, fontsize=8)
    for step in steps:
        axes[0, 0].plot([], [], color="black", alpha=shade[step], label=f"step {step:g}")
    axes[0, 0].set(ylabel=PASS_AT_K)
    legend(figure, axes[0, 0], len(steps))
    return figure, pd.concat(drawn), caption("13")


def fig10(model: str, root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw the distribution of solve rates over problems for the start model and at up to three
    checkpoints of GRPO. A Beta-binomial and a mixture of two are fitted by least squares to the
    shares of groups of 16 samples with 0, 1, ..., 16 right."""
    counts, start = counts_of(cluster, model)
    grpo = counts[counts["method"] == "GRPO"]
    need(model, "counts", ["SFT"] * start.empty + ["GRPO"] * grpo.empty)
    shown = pd.concat([start, grpo[grpo["step"].isin(spread(grpo["step"], 3))]])
    shown = shown.drop_duplicates(["method", "seed", "step", "problem_id"])
    steps = sorted(shown["step"].unique())
    figure, axes = panels(len(steps), width=2.3, height=2.3, sharey=True)
    rate, drawn = np.arange(GROUP + 1) / GROUP, []
    for axis, step in zip(axes[0], steps, strict=True):
        share = groups_of(shown[shown["step"] == step], GROUP)
        axis.bar(rate, 100 * share, width=0.8 / GROUP, color="0.8", label="measured")
        frame = pd.DataFrame({"step": step, "rate": rate, "measured": 100 * share})
        shapes = {1: "Beta-binomial", 2: "mixture of two Betas"} if share.max() < 1 else {}
        for components, name in shapes.items():
            fitted = 100 * fit_beta(share, components=components).pmf(GROUP)
            style = dict(marker="os"[components - 1], ms=2.5, lw=1, color=COLORS[components])
            axis.plot(rate, fitted, "-" * components, **style, label=name)
            frame[f"beta_{components}"] = fitted
        axis.set(xlabel="solve rate", title=f"step {step:g}" if step else "SFT")
        drawn.append(frame)
    axes[0, 0].set(ylabel="problems (%)")
    legend(figure, axes[0, 0], 3)
    more = (
        "groups of 16 of 200 samples, for SFT and at checkpoints of GRPO, with fits by least "
        "squares. The paper has the training prompts, which no job samples again, and does not "
        "name the method"
    )
    return figure, pd.concat(drawn), caption("10", model, more)


fig10_7b, fig10_32b = (partial(fig10, model) for model in (SMALL, LARGE))


def groups_of(counts: pd.DataFrame, size: int) -> np.ndarray:
    """Return the share of groups of `size` samples with 0, 1, ..., `size` right, (size + 1,): the
    mean over problems of the hypergeometric distribution that c of n right samples give."""
    x, c, n = np.arange(size + 1)[:, None], counts["c"].to_numpy(), counts["n"].to_numpy()
    return hypergeom.pmf(x, n, c, size).mean(1)


def fig11(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw the law fitted to k <= 10 (left) and to k <= 50 (right), up to k = 100."""
    _, last = after_training(cluster)
    figure, axes = panels(2, width=3.5, height=3.2, sharey=True)
    drawn = []
    for axis, budget in zip(axes[0], (10, 50), strict=True):
        drawn.append(_laws(axis, last, budget).assign(budget=budget))
        axis.axvline(budget, color="0.5", lw=0.8, ls=":")
        axis.set(title=f"fitted to k <= {budget}")
    axes[0, 0].set(ylabel=PASS_AT_K)
    legend(figure, axes[0, 0], 3)
    return figure, pd.concat(drawn), caption("11")


def fig12(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw the law fitted to each third of the problems. The base model's solve rates make the
    split, so that no method's counts choose it."""
    start, last = after_training(cluster)
    rate = start.groupby("problem_id")[["c", "n"]].sum()
    order = (rate["c"] / rate["n"]).sort_values(ascending=False, kind="stable").index
    thirds = dict(zip(("easy", "medium", "hard"), np.array_split(order, 3), strict=True))
    figure, axes = panels(3, width=2.7, height=3.0, sharey=True)
    drawn = []
    for axis, (name, problems) in zip(axes[0], thirds.items(), strict=True):
        third = last[last["problem_id"].isin(problems)]
        drawn.append(_laws(axis, third, 100).assign(split=name))
        axis.set(title=f"{name} third")
    axes[0, 0].set(ylabel=PASS_AT_K)
    legend(figure, axes[0, 0], 3)
    more = "thirds by SFT's solve rate; fits: common/metrics/fits.py"
    return figure, pd.concat(drawn), caption("12", more=more)


def _laws(axis, counts: pd.DataFrame, most: int) -> pd.DataFrame:
    """Draw pass@k of BEST (dots) and the law fitted to k <= `most`; return what is drawn."""
    parts = []
    for method in BEST:
        ks, values = tables.curves(counts[counts["method"] == method])
        ks, mean = np.array(ks), values.mean(0)
        law = fit_power_law(ks[ks <= most], mean[ks <= most])[0]
        axis.plot(K, 100 * power_law(K, *law), color=LAWS[method], label=method)
        axis.plot(ks, 100 * mean, ".", ms=4, color=LAWS[method])
        frame = {"method": method, "k": ks, "measured": mean, "fitted": power_law(ks, *law)}
        parts.append(pd.DataFrame(frame))
    axis.set(xscale="log", xlabel="k")
    return pd.concat(parts)
