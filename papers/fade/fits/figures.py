"""Figs. 6, 10, 11, 12 and 13 from sample counts and the fits to them."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.metrics.fits import fit_beta, fit_power_law, power_law
from common.plotting import COLORS, Colors, legend, panels, present, save
from papers.fade.fits import tables

BENCHMARKS = ("natural", "rare")
SHOWN = 100  # largest k of the drawn fitted curves


def coefficients(fits: pd.DataFrame, colors: Colors, path: Path, benchmarks=BENCHMARKS) -> None:
    """Draw Fig. 6 left: a and b along training, starting from the base model (square).

    Bars are 95 % intervals over problems after the last step.
    """
    figure, axes = panels(len(benchmarks), width=3.6, height=3.4)
    for axis, benchmark in zip(axes[0], benchmarks, strict=True):
        rows = fits[fits["benchmark"] == benchmark]
        start = rows[rows["method"] == "base"]
        axis.plot(start["a"], start["b"], "s", color="black", ms=5, label="base")
        for method, color in present(rows, colors).items():
            line = rows[rows["method"] == method].sort_values("step")
            points = pd.concat([start, line])
            axis.plot(points["a"], points["b"], "o-", ms=3, color=color, label=method)
            end = line.iloc[-1]
            axis.errorbar(
                end["a"],
                end["b"],
                xerr=np.maximum(0, [[end["a"] - end["a_low"]], [end["a_high"] - end["a"]]]),
                yerr=np.maximum(0, [[end["b"] - end["b_low"]], [end["b_high"] - end["b"]]]),
                color=color,
                alpha=0.3,
            )
        axis.set(xscale="log", xlabel="a (level)", ylabel="b (slope)", title=f"{benchmark} prompts")
        axis.tick_params(axis="x", which="minor", labelsize=6)
    legend(figure, axes[0, 0], 3)
    save(figure, path, fits)


def curves(
    counts: pd.DataFrame, fits: pd.DataFrame, colors: Colors, path: Path, benchmark: str = "rare"
) -> None:
    """Draw Fig. 13: pass@k by k at the checkpoints of each method, later ones darker.

    Dots are measurements; lines are the fitted law.
    """
    rare = counts[counts["benchmark"] == benchmark]
    methods = list(present(rare, colors))
    figure, axes = panels(len(methods), width=2.5, height=2.6, sharey=True)
    k, drawn = np.logspace(0, np.log10(SHOWN), 40), []
    for axis, method in zip(axes[0], methods, strict=True):
        mine = rare[rare["method"].isin([method, "base"])]
        steps = sorted(mine["step"].unique())
        for i, step in enumerate(steps):
            shade = 0.15 + 0.85 * i / max(1, len(steps) - 1)
            at = mine[mine["step"] == step]
            ks, values = tables.curves(at)
            which = "base" if step == 0 else method
            fit = fits[(fits["benchmark"] == benchmark) & (fits["step"] == step)]
            fit = fit[fit["method"] == which].iloc[0]
            line = 100 * power_law(k, *fit[["a", "b", "c"]].astype(float))
            axis.plot(k, line, color=colors[method], alpha=shade, label=f"step {step}")
            measured = 100 * values.mean(0)
            axis.plot(ks, measured, ".", ms=4, color=colors[method], alpha=shade)
            frame = pd.DataFrame({"k": ks, "measured": measured})
            drawn.append(frame.assign(method=method, step=step))
        axis.set(xscale="log", xlabel="k", title=method)
        axis.legend(fontsize=6)
    axes[0, 0].set(ylabel=f"{benchmark} pass@k (%)")
    save(figure, path, pd.concat(drawn))


def solve_rates(
    base: pd.DataFrame, last: pd.DataFrame, colors: Colors, path: Path, benchmarks=BENCHMARKS
) -> None:
    """Draw Fig. 10: the distribution of solve rates over problems before and after RL.

    A Beta-binomial (solid) and a mixture of two (dashed) are fitted by likelihood. The paper
    minimises a squared error instead, which with 200 samples of a problem sees mostly empty bins.
    """
    shown = {"base": base} | {m: last[last["method"] == m] for m in present(last, colors)}
    figure, axes = panels(len(shown), len(benchmarks), width=2.2, height=2.2, sharex=True)
    edges, drawn = np.linspace(0, 1, 21), []
    for column, (method, counts) in enumerate(shown.items()):
        for axis, benchmark in zip(axes[:, column], benchmarks, strict=True):
            problems = counts[counts["benchmark"] == benchmark]
            n = int(problems["n"].iloc[0])
            # shifted so that no count lies on the edge of a bin
            share, _ = np.histogram((problems["c"] + 0.5) / (n + 1), edges)
            share = 100 * share / len(problems)
            axis.bar(edges[:-1], share, width=0.05, align="edge", color="0.8")
            frame = pd.DataFrame({"from": edges[:-1], "measured": share})
            for components, style in ((1, "-"), (2, "--")):
                fitted = fitted_shares(problems["c"].to_numpy(), n, components, edges)
                if fitted is not None:
                    axis.step(edges[:-1], fitted, style, where="post", color=COLORS[components - 1])
                    frame[f"beta_{components}"] = fitted
            axis.set_title(f"{method}, {benchmark}", fontsize=7)
            drawn.append(frame.assign(method=method, benchmark=benchmark))
    for axis in axes[-1]:
        axis.set(xlabel="solve rate")
    for axis in axes[:, 0]:
        axis.set(ylabel="problems (%)")
    save(figure, path, pd.concat(drawn))


def fitted_shares(c: np.ndarray, n: int, components: int, edges: np.ndarray) -> np.ndarray | None:
    """Return the percentage of problems in each bin that the fitted mixture predicts.

    Return None where the counts determine no shape: all c are 0, or all are n.
    """
    if (c == 0).all() or (c == n).all():
        return None
    pmf = fit_beta(c, n, components=components).pmf(n)
    return 100 * np.histogram((np.arange(n + 1) + 0.5) / (n + 1), edges, weights=pmf)[0]


def budgets(
    last: pd.DataFrame, fits: pd.DataFrame, colors: Colors, path: Path, benchmarks=BENCHMARKS
) -> None:
    """Draw Fig. 11: the law fitted to k <= 10 (left) and to k <= 50 (right), up to k = 100."""
    figure, axes = panels(2, width=3.5, height=3.2, sharey=True)
    k, drawn = np.logspace(0, np.log10(SHOWN), 40), []
    for axis, budget in zip(axes[0], (10, 50), strict=True):
        for method, color in present(last, colors).items():
            for benchmark, style in zip(benchmarks, ("-", "--"), strict=False):
                group = last[(last["method"] == method) & (last["benchmark"] == benchmark)]
                ks, values = tables.curves(group)
                hit = fits[(fits["method"] == method) & (fits["benchmark"] == benchmark)]
                fit = hit.loc[hit["budget"] == budget, "fit"].iloc[0]
                label = method if style == "-" else None
                axis.plot(k, 100 * power_law(k, *fit), style, color=color, label=label)
                measured = 100 * values.mean(0)
                axis.plot(ks, measured, ".", ms=4, color=color)
                frame = pd.DataFrame({"k": ks, "measured": measured})
                frame["fitted"] = 100 * power_law(ks, *fit)
                drawn.append(frame.assign(method=method, benchmark=benchmark, budget=budget))
        axis.axvline(budget, color="0.5", lw=0.8, ls=":")
        axis.set(xscale="log", xlabel="k", title=f"fitted to k <= {budget}")
    two = "natural solid, rare dashed" if len(benchmarks) > 1 else benchmarks[0]
    axes[0, 0].set(ylabel=f"pass@k (%): {two}")
    legend(figure, axes[0, 0], 3)
    save(figure, path, pd.concat(drawn))


def difficulty(
    base: pd.DataFrame, last: pd.DataFrame, colors: Colors, path: Path, benchmark: str = "natural"
) -> None:
    """Draw Fig. 12: the law fitted to each third of the problems, split by the base model's rate.

    The base model's solve rates make the split, so that no method's own counts choose it. Easy
    problems have few solve rates near 0, hard ones many.
    """
    rate = base[base["benchmark"] == benchmark].groupby("problem_id")[["c", "n"]].sum()
    order = (rate["c"] / rate["n"]).sort_values(ascending=False, kind="stable").index
    thirds = dict(zip(("easy", "medium", "hard"), np.array_split(order, 3), strict=True))
    figure, axes = panels(3, width=2.7, height=3.0, sharey=True)
    drawn = []
    for axis, (name, problems) in zip(axes[0], thirds.items(), strict=True):
        for method, color in present(last, colors).items():
            third = last[(last["method"] == method) & last["problem_id"].isin(problems)]
            ks, values = tables.curves(third[third["benchmark"] == benchmark])
            mean = values.mean(0)
            fitted = power_law(ks, *fit_power_law(ks, mean)[0])
            axis.plot(ks, 100 * fitted, color=color, label=method)
            axis.plot(ks, 100 * mean, ".", ms=4, color=color)
            frame = pd.DataFrame({"k": ks, "measured": 100 * mean, "fitted": 100 * fitted})
            error = ((fitted - mean) ** 2).mean()
            drawn.append(frame.assign(method=method, split=name, mse=error))
        axis.set(xscale="log", xlabel="k", title=f"{name} third")
    axes[0, 0].set(ylabel=f"{benchmark} pass@k (%)")
    legend(figure, axes[0, 0], 3)
    save(figure, path, pd.concat(drawn))
