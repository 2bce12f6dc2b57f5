"""Figs 6 and 7 of the second version (App. K), from the maze runs of SCALE=gpu."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison.cluster_figures import Drawn, LeftOut
from common.comparison.gather import Gathered
from common.comparison.training import blocks, logs
from common.palette import GREY, look
from common.plotting import legend, panels
from common.results.tables import together

GROUP_SIZES = (4, 8, 16, 32, 64, 128)  # the columns of Table 4
MAZE = ("GRPO", "F-GRPO (gamma=0.5)", "F-GRPO (gamma=1)")
# the laptop methods whose colours, lines and markers the methods of MAZE get
LIKE = ("GRPO (N=8)", "F-GRPO (N=8, gamma=0.5)", "F-GRPO (N=8, gamma=1)")
METHODS = {method: look(like) for method, like in zip(MAZE, LIKE, strict=True)}
BASE = "base"
KS = (1, 128, 1024, 2048)  # Fig. 6's panels
TABLE = "maze"
NAMED = re.compile(r"(?P<name>.*) \(N=(?P<N>\d+)\)")
FIG6 = ["method", "N", "k", "step", "seed", "value"]
FIG7 = ["method", "N", "curve", "step", "seed", "value"]


def fig6(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw -log(pass@k) after the last step against N: one panel for each k of KS that was
    evaluated."""
    passes = _passes(cluster.rows)
    passes = passes[passes["k"].isin(KS)]
    passes = passes[passes["step"] == passes.groupby("run_id")["step"].transform("max")]
    ks = sorted(passes["k"].unique())
    figure, axes = panels(len(ks), width=2.4, height=2.5)
    for axis, k in zip(axes[0], ks, strict=True):
        part = passes[passes["k"] == k]
        for method, style in METHODS.items():
            # no point for a share of 0, which has no logarithm, nor for 1, whose -log is 0: the
            # axis is logarithmic
            values = part[part["method"] == method].groupby("N")["value"].mean() / 100
            values = -np.log(values[(values > 0) & (values < 1)])
            marks = {"color": style.color, "ls": style.line, "marker": style.marker}
            axis.plot(values.index, values, **marks, markersize=3, label=method)
        base = part.loc[part["method"] == BASE, "value"]
        if len(base) and 0 < base.mean() < 100:
            axis.axhline(-np.log(base.mean() / 100), color=GREY, ls=":", lw=1.2, label=BASE)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(GROUP_SIZES, [str(n) for n in GROUP_SIZES])
        axis.set(title=f"k = {k:g}", xlabel="training rollouts N")
    axes[0, 0].set_ylabel("-log(pass@k)")
    legend(figure, axes[0, 0], 4)
    trained = passes.loc[passes["N"].notna(), "step"]
    steps = " or ".join(f"{x:g}" for x in sorted(trained.unique()))
    caption = (
        "Fig. 6 of the second version: single-solution mazes by group size, -log(pass@k) after "
        f"step {steps}; lower is better. {_about(passes)} A point at pass@k = 0 or 100 % "
        "is not shown. The paper prints Table 4's values of it."
    )
    return figure, passes[FIG6].sort_values(FIG6[:5]), caption


def fig7(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw training reward, pass@1 and pass@(largest k) along training: one column for each N."""
    passes = _passes(cluster.rows)
    largest, shares = passes["k"].max(), passes.assign(value=passes["value"] / 100)
    curves = {
        "train reward": _rewards(root, cluster.rows[cluster.rows["table"] == TABLE]),
        "test pass@1": shares[shares["k"] == 1],
        f"test pass@{largest:g}": shares[shares["k"] == largest],
    }
    drawn = pd.concat([x.assign(curve=key) for key, x in curves.items()], ignore_index=True)
    figure, axes = panels(len(GROUP_SIZES), len(curves), width=1.7, height=1.6)
    for i, curve in enumerate(curves):
        part = drawn[drawn["curve"] == curve]
        base = part.loc[part["method"] == BASE, "value"]
        for axis, N in zip(axes[i], GROUP_SIZES, strict=True):
            for method, style in METHODS.items():
                shown = part[(part["method"] == method) & (part["N"] == N)]
                mean = shown.groupby("step")["value"].mean()
                marks = {"color": style.color, "ls": style.line, "lw": 1.0}
                axis.plot(mean.index, mean, **marks, label=method)
            if len(base):
                axis.axhline(base.mean(), color=GREY, ls=":", lw=1.2, label=BASE)
            axis.set(ylim=(-0.02, 1.02))
            axis.tick_params(labelsize=6)
            if i == 0:
                axis.set_title(f"N = {N}", fontsize=8)
            if i == len(curves) - 1:
                axis.set_xlabel("step", fontsize=7)
        axes[i][0].set_ylabel(curve, fontsize=7)
    legend(figure, axes[0, 0], 4)
    caption = (
        "Fig. 7 of the second version: training on single-solution mazes by group size, training "
        "reward (means of ten steps), pass@1 and pass@k of the largest k that was evaluated "
        f"({largest:g}; the paper: 2048). {_about(passes)} The paper prints no numbers of it."
    )
    return figure, drawn[FIG7].sort_values(FIG7[:5]), caption


def _passes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the pass@k of the maze runs, with the group size in column N and no longer in the
    method's name. Raises LeftOut if a run is missing."""
    passes = rows[(rows["table"] == TABLE) & (rows["benchmark"] == TABLE)]
    passes = passes[passes["metric"].str.match(r"pass@\d+$")]
    wanted = {f"{method} (N={N})" for N in GROUP_SIZES for method in METHODS}
    lacking = sorted(wanted - set(passes["method"]))
    if len(lacking) == len(wanted):
        raise LeftOut("no run of SCALE=gpu")
    if lacking:
        raise LeftOut(f"rows without a run: {', '.join(lacking)}")
    parts = passes["method"].str.extract(NAMED)
    return passes.assign(method=parts["name"].fillna(passes["method"]), N=parts["N"].astype(float))


def _rewards(root: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of right rollouts as means of ten steps, for runs whose folders are
    there."""
    parts = [pd.DataFrame(columns=["method", "N", "step", "seed", "value"])]
    for run, log in logs(root, "f_grpo", rows):
        named = NAMED.match(run["method"])
        if named and "reward" in log:
            means = blocks(log, ["reward"]).rename(columns={"reward": "value"})
            parts.append(means.assign(method=named["name"], N=float(named["N"]), seed=run["seed"]))
    return together(parts)


def _about(passes: pd.DataFrame) -> str:
    seeds = passes.groupby(["method", "N"], dropna=False)["seed"].nunique()
    number = "One seed a row" if (seeds == 1).all() else "Means over seeds"
    samples = " or ".join(f"{n:g}" for n in sorted(passes["n_samples"].dropna().unique()))
    problems = passes["n_problems"].max()
    return f"{number}, {problems:g} mazes, {samples} samples a maze."
