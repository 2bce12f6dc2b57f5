"""Figs. 6, 10, 11, 12 and 13 from sample counts on LiveCodeBench v6 and the fits to them."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import hypergeom

from common.metrics.fits import fit_beta, fit_power_law, power_law
from common.plotting import COLORS, Colors, legend, panels, present, save
from papers.fade.fits import tables

K = np.logspace(0, 2, 40)  # of the drawn curves
GROUP = 16  # samples behind a solve rate of Fig. 10
PASS_AT_K = "pass@k (%)"


def coefficients(fits: pd.DataFrame, colors: Colors, path: Path) -> None:
    """Draw Fig. 6 left: a and b along training, from the base model (square), with 95 % intervals
    over problems after the last step."""
    figure, axes = panels(1, width=4.6, height=3.4)
    axis, start = axes[0, 0], fits[fits["method"] == "base"]
    axis.plot(start["a"], start["b"], "s", color="black", ms=5, label="SFT")
    for method, color in present(fits, colors).items():
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
    save(figure, path, fits)


def curves(counts: pd.DataFrame, fits: pd.DataFrame, colors: Colors, path: Path) -> None:
    """Draw Fig. 13: pass@k by k at the checkpoints of each method, later ones darker: measurements
    (dots) and the fitted law (lines)."""
    methods = list(present(counts, colors))
    steps = sorted(counts["step"].unique())
    shade = dict(zip(steps, np.linspace(0.15, 1, len(steps)), strict=True))
    figure, axes = panels(len(methods), width=2.3, height=2.6, sharey=True)
    drawn = []
    for axis, method in zip(axes[0], methods, strict=True):
        mine = counts[counts["method"].isin([method, "base"])]
        for step, at in mine.groupby("step"):
            ks, values = tables.curves(at)
            fit = fits[(fits["method"] == at["method"].iloc[0]) & (fits["step"] == step)].iloc[0]
            look = dict(color=colors[method], alpha=shade[step])
            axis.plot(K, 100 * power_law(K, *fit[["a", "b", "c"]].astype(float)), **look)
            measured = 100 * values.mean(0)
            axis.plot(ks, measured, ".", ms=4, **look)
            frame = pd.DataFrame({"k": ks, "measured": measured})
            drawn.append(frame.assign(method=method, step=step))
        axis.set(xscale="log", xlabel="k")
        axis.set_title(method, fontsize=8)
    for step in steps:
        axes[0, 0].plot([], [], color="black", alpha=shade[step], label=f"step {step:g}")
    axes[0, 0].set(ylabel=PASS_AT_K)
    legend(figure, axes[0, 0], len(steps))
    save(figure, path, pd.concat(drawn))


def solve_rates(counts: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 10: the distribution of solve rates over problems at the checkpoints of one
    training; step 0 is its start. A Beta-binomial and a mixture of two are fitted by least squares
    to the shares of groups of 16 samples with 0, 1, ..., 16 right."""
    steps = sorted(counts["step"].unique())
    figure, axes = panels(len(steps), width=2.3, height=2.3, sharey=True)
    rate, drawn = np.arange(GROUP + 1) / GROUP, []
    for axis, step in zip(axes[0], steps, strict=True):
        share = groups_of(counts[counts["step"] == step], GROUP)
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
    save(figure, path, pd.concat(drawn))


def groups_of(counts: pd.DataFrame, size: int) -> np.ndarray:
    """Return the share of groups of `size` samples with 0, 1, ..., `size` right, (size + 1,): the
    mean over problems of the hypergeometric distribution that c of n right samples give."""
    x, c, n = np.arange(size + 1)[:, None], counts["c"].to_numpy(), counts["n"].to_numpy()
    return hypergeom.pmf(x, n, c, size).mean(1)


def _laws(axis, counts: pd.DataFrame, colors: Colors, most: int) -> pd.DataFrame:
    """Draw each method's pass@k (dots) and the law fitted to k <= `most`; return what is drawn."""
    parts = []
    for method, color in present(counts, colors).items():
        ks, values = tables.curves(counts[counts["method"] == method])
        ks, mean = np.array(ks), values.mean(0)
        law = fit_power_law(ks[ks <= most], mean[ks <= most])[0]
        axis.plot(K, 100 * power_law(K, *law), color=color, label=method)
        axis.plot(ks, 100 * mean, ".", ms=4, color=color)
        frame = {"method": method, "k": ks, "measured": mean, "fitted": power_law(ks, *law)}
        parts.append(pd.DataFrame(frame))
    axis.set(xscale="log", xlabel="k")
    return pd.concat(parts)


def budgets(last: pd.DataFrame, colors: Colors, path: Path) -> None:
    """Draw Fig. 11: the law fitted to k <= 10 (left) and to k <= 50 (right), up to k = 100."""
    figure, axes = panels(2, width=3.5, height=3.2, sharey=True)
    drawn = []
    for axis, budget in zip(axes[0], (10, 50), strict=True):
        drawn.append(_laws(axis, last, colors, budget).assign(budget=budget))
        axis.axvline(budget, color="0.5", lw=0.8, ls=":")
        axis.set(title=f"fitted to k <= {budget}")
    axes[0, 0].set(ylabel=PASS_AT_K)
    legend(figure, axes[0, 0], 3)
    save(figure, path, pd.concat(drawn))


def difficulty(base: pd.DataFrame, last: pd.DataFrame, colors: Colors, path: Path) -> None:
    """Draw Fig. 12: the law fitted to each third of the problems. The base model's solve rates make
    the split, so that no method's counts choose it."""
    rate = base.groupby("problem_id")[["c", "n"]].sum()
    order = (rate["c"] / rate["n"]).sort_values(ascending=False, kind="stable").index
    thirds = dict(zip(("easy", "medium", "hard"), np.array_split(order, 3), strict=True))
    figure, axes = panels(3, width=2.7, height=3.0, sharey=True)
    drawn = []
    for axis, (name, problems) in zip(axes[0], thirds.items(), strict=True):
        third = last[last["problem_id"].isin(problems)]
        drawn.append(_laws(axis, third, colors, 100).assign(split=name))
        axis.set(title=f"{name} third")
    axes[0, 0].set(ylabel=PASS_AT_K)
    legend(figure, axes[0, 0], 3)
    save(figure, path, pd.concat(drawn))
