"""Draw Figs. 1, 3, 4, 5 right, 6 left and 9 to 14 from cluster rows: from the logs of training runs
and from LiveCodeBench v6 at their checkpoints. A figure that lacks rows is left out and names them.
Figs. 1, 6 left, 9 and 13 need SCALE=cluster_curves, Fig. 14 needs SCALE=cluster_fig14.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison.cluster_figures import PREFIX, Curve, Figure, along
from common.comparison.gather import Gathered
from common.comparison.training import logged, phases
from common.palette import colors
from common.plotting import legend, panels, save
from papers.fade.fits import figures as fitted
from papers.fade.fits import tables

V6, SMALL, LARGE = "LiveCodeBench v6", "Qwen 2.5 7B", "CWM 32B"
BEST = ("FADE H*=1.0", "GRPO", "Power alpha=2", "AsymGRPO delta=0.5")
# the pass@k-driven methods, which do not lose the slope b in training (Fig. 6 left)
DRIVEN = ("pass@4 (Tang)", "pass@4 (Chen)", "pass@1 and pass@4 (Chen)")
LAWS = (*BEST, *DRIVEN)
ABLATIONS = ("FADE H*=1.0", "FADE (alpha only)", "FADE (delta only)", "FADE (both from entropy)")
ABLATIONS += ("FADE (log schedule)",)
DELTAS = {f"AsymGRPO delta={delta:g}": delta for delta in (0.3, 0.5, 0.7, 1.5, 2)}
# method -> delta, which is 1 for the three sign-balanced methods at the end
SIGNS = DELTAS | dict.fromkeys(("mean GRPO", "GRPO", "Power alpha=2"), 1.0)
# method -> the solve rate p where its weight is largest: the mode of p q^alpha, or of p^alpha q
FOCUS = {"mean GRPO": 1 / 2, "Power alpha=1.5": 1 / 2.5, "Power alpha=2": 1 / 3}
FOCUS |= {"Power alpha=3": 1 / 4, "Power easy alpha=2": 2 / 3}
RATES = ("mean GRPO", "Power alpha=3", "AsymGRPO delta=0.5", "pass@4 (Chen)")  # Fig. 14
PASS = [Curve(f"{V6}, pass@{k}", benchmark=V6, metric=f"pass@{k}") for k in (1, 10, 100)]
ENTROPY = [Curve("entropy (nats)", column="entropy")]
STEP = "step: a rollout of 10 optimiser steps."


def draw(root: Path, cluster: Gathered) -> list[Figure]:
    """Draw the figures. Return one Figure each: its caption, or the reason why it is left out."""
    rows, folder = cluster.rows, root / "fade" / "figures"
    fig14 = rows["table"] == "table_fig14"
    ours, several = rows[~fig14], at_several_steps(rows[~fig14])

    def curves(name: str, frame, methods, shown, about: str, model: str = SMALL) -> Figure:
        return along(root, "fade", frame, name=name, model=model, colors=colors(methods),
                     curves=shown, about=f"{about}, {model}; {STEP}")  # fmt: skip

    balanced = [*DELTAS, "mean GRPO"]
    made = [
        curves("fig1_7b", several, BEST, PASS, "Fig. 1: pass@k over training"),
        curves("fig1_32b", several, BEST, PASS, "Fig. 1: pass@k over training", LARGE),
        curves("fig3_entropy", ours, balanced, ENTROPY, "Fig. 3 middle: entropy by delta"),
        signs(root, ours, folder),
        focus(ours, folder),
        curves("fig9", several, ABLATIONS, PASS, "Fig. 9: the ablations"),
        curves("fig14_equalised", ours, RATES, ENTROPY, "Fig. 14: equalised learning rates"),
        curves("fig14_same", rows[fig14], RATES, ENTROPY, "Fig. 14: one learning rate"),
    ]
    return made + laws(cluster.counts, folder)


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
    """Draw Fig. 4: entropy against the ratio of gradient masses, and pass@100 against entropy.

    Entropy and solve rate p are means over the last tenth of training; the ratio is
    delta p / (1 - p).
    """
    mine = rows[(rows["model"] == SMALL) & rows["method"].isin(list(SIGNS))]
    found = logged(root, "fade", mine, lambda log: phases(log, ["entropy", "reward"]))
    value = {
        name: found[found["metric"] == f"{name}_last"].groupby("method")["value"].mean()
        for name in ("entropy", "reward")
    }
    passed = last_of(rows, "pass@100")
    if left := lacking("fig4", SIGNS, *value.values(), passed):
        return left
    table = pd.DataFrame(value).join(passed.rename("pass@100")).loc[list(SIGNS)]
    p = table["reward"]  # rewards are 1 or 0, so their mean is the solve rate
    table["ratio"] = pd.Series(SIGNS) * p / (1 - p)
    figure, axes = panels(2, width=3.2, height=2.8)
    for method, color in colors(table.index).items():
        one = table.loc[method]
        axes[0, 0].plot(one["ratio"], one["entropy"], "o", color=color, label=method)
        axes[0, 1].plot(one["entropy"], one["pass@100"], "o", color=color)
    axes[0, 0].set(xlabel="m_S p / (m_F (1 - p))", ylabel="entropy (nats)")
    axes[0, 1].set(xlabel="entropy (nats)", ylabel="pass@100 (%)")
    legend(figure, axes[0, 0], 3)
    save(figure, folder / f"{PREFIX}fig4", table.rename_axis("method").reset_index())
    about = "Fig. 4: entropy of a training's last tenth by the sign ratio at its solve rate then"
    return Figure(f"{PREFIX}fig4", f"{about}, and pass@100 on {V6} by it, {SMALL}.")


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
    """Draw Figs. 6 left and 10 to 13: shifted power laws fitted to counts, as for laptop runs."""
    mine = counts[(counts["model"] == SMALL) & (counts["benchmark"] == V6) & (counts["n"] >= 100)]
    base = mine[mine["method"] == "SFT"].assign(method="base", step=0, table="table3")
    trained = mine[mine["method"].isin(LAWS)].assign(table="table3")
    steps = trained.groupby("method")["step"].nunique().reindex(list(LAWS)).fillna(0)
    last = trained[trained["step"] == trained.groupby("method")["step"].transform("max")]
    last = last[last["method"].isin(BEST)]
    hue = colors(LAWS)
    names = ("fig6_left", "fig13", "fig10", "fig11", "fig12")
    no_base = ["SFT"] if base.empty else []
    missing = [*no_base, *(name for name in BEST if not steps[name])]
    short = [*no_base, *steps.index[steps < 2]]

    def path(name: str) -> Path:
        return folder / f"{PREFIX}{name}"

    def along_training(name: str) -> None:
        both = pd.concat([base, trained[trained["step"].isin(spread(trained["step"]))]])
        fits = tables.coefficients(both)
        if name == "fig6_left":
            fitted.coefficients(fits, hue, path(name), benchmarks=(V6,))
        else:
            fitted.curves(both, fits, hue, path(name), benchmark=V6)

    pictures: dict[str, Callable[[], None]] = {
        "fig6_left": lambda: along_training("fig6_left"),
        "fig13": lambda: along_training("fig13"),
        "fig10": lambda: fitted.solve_rates(base, last, hue, path("fig10"), benchmarks=(V6,)),
        "fig11": lambda: fitted.budgets(
            last, tables.budgets(last), hue, path("fig11"), benchmarks=(V6,)
        ),
        "fig12": lambda: fitted.difficulty(base, last, hue, path("fig12"), benchmark=V6),
    }
    made = []
    for name in names:
        lost = short if name in names[:2] else missing
        if lost:
            said = f"rows without counts: {', '.join(dict.fromkeys(lost))} of {SMALL}"
            made.append(Figure(PREFIX + name, left_out=said))
            continue
        pictures[name]()
        number = name.removeprefix("fig").replace("_", " ")
        about = f"Fig. {number}: {V6}, {SMALL}; fits as the laptop's (common/metrics/fits.py)"
        made.append(Figure(PREFIX + name, f"{about}; Fig. 12: thirds by SFT's solve rate; {STEP}"))
    return made


def spread(steps: pd.Series, most: int = 5) -> list[int]:
    """Return at most `most` of the steps, evenly spaced, including the first and the last."""
    every = np.sort(steps.unique())
    return list(every[np.unique(np.linspace(0, len(every) - 1, most).round().astype(int))])
