"""Figs. 4, 5 right and 6 right from cluster rows: cells of the comparison, logs of training runs,
and LiveCodeBench v6 at checkpoints. compare.yaml states the figures of curves along training, and
count_figures.py has those of sample counts."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison.cluster_figures import (
    PRINTED,
    Drawn,
    about,
    chosen,
    legend_handles,
    need,
    whiskers,
)
from common.comparison.gather import Gathered
from common.comparison.spec import spec_of
from common.comparison.training import logged, phases
from common.palette import colors, look
from common.plotting import legend, panels
from papers.fade.compare import LARGE, SMALL, V6

DELTAS = {f"AsymGRPO delta={delta:g}": delta for delta in (0.3, 0.5, 0.7, 1.5, 2)}
# method -> delta, which is 1 for the two sign-balanced methods at the end
SIGNS = DELTAS | dict.fromkeys(("GRPO", "Power alpha=2"), 1.0)
# method -> the solve rate p where its weight is largest: the mode of p q^alpha, or of p^alpha q
FOCUS = {"Power alpha=3": 1 / 4, "Power alpha=2": 1 / 3, "GRPO": 1 / 2}
FOCUS |= {"Power easy alpha=2": 2 / 3}


def fig6(model: str, root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw pass@100 against pass@1 for the methods of Table 3."""
    metrics = ("pass@1", "pass@100")
    found = chosen(cells, [{"table": "table3", "model": model, "metric": one} for one in metrics])
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
    return figure, found, f"Fig. 6 right: {V6}, {model}. {about(found)}"


fig6_7b, fig6_32b = (partial(fig6, model) for model in (SMALL, LARGE))


def of_small(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of SMALL without those of Fig. 14, which are all at one learning rate."""
    return rows[(rows["model"] == SMALL) & (rows["table"] != "table_fig14")]


def last_of(rows: pd.DataFrame, metric: str) -> pd.Series:
    """Return the metric on V6 at the last measured step, indexed by method."""
    found = rows[(rows["benchmark"] == V6) & (rows["metric"] == metric)]
    return found.sort_values("step").groupby("method")["value"].last()


def of_methods(methods: Iterable[str], parts: dict[str, pd.Series]) -> pd.DataFrame:
    """Return a column for each part, which has a number for each method."""
    lacking = sorted({m for m in methods if any(m not in one.index for one in parts.values())})
    need(SMALL, "a curve", lacking)
    return pd.DataFrame(parts).loc[list(methods)].rename_axis("method")


def fig4(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw entropy against the ratio of gradient masses, and pass@100 and the learning speed
    against entropy.

    Entropy and solve rate p are means over the last tenth of training; the ratio is
    delta p / (1 - p). The speed is the mean solve rate over the first tenth, since all runs start
    from one model (our reading: the paper defines none).
    """
    rows = of_small(cluster.rows)
    mine = rows[rows["method"].isin(SIGNS)]
    found = logged(root, "fade", mine, lambda log: phases(log, ["entropy", "reward"]))
    value = found.pivot_table(index="method", columns="metric", values="value")
    wanted = {"entropy": "entropy_last", "reward": "reward_last", "speed": "reward_first"}
    parts = {name: value.get(metric, pd.Series(dtype=float)) for name, metric in wanted.items()}
    table = of_methods(SIGNS, parts | {"pass@100": last_of(rows, "pass@100")})
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
    caption = (
        "Fig. 4: entropy of a training's last tenth by the sign ratio at its solve rate then, and "
        "pass@100 and the learning speed (the first tenth's solve rate, our reading) by it; "
        f"{V6}, {SMALL}."
    )
    return figure, table.reset_index(), caption


def fig5_right(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw pass@1 and pass@100 against the solve rate where the weight is largest."""
    rows = of_small(cluster.rows)
    table = of_methods(FOCUS, {x: last_of(rows, x) for x in ("pass@1", "pass@100")})
    table = table.assign(focus=pd.Series(FOCUS)).sort_values("focus").reset_index()
    figure, axes = panels(2, width=2.9, height=2.7)
    for axis, metric in zip(axes[0], ("pass@1", "pass@100"), strict=True):
        axis.plot(table["focus"], table[metric], "o-", color="0.3")
        axis.set(xlabel="solve rate of the largest weight", ylabel=f"{metric} (%)")
    what = f"Fig. 5 right: {V6} by the focus of Power alpha and its easy counterpart, {SMALL}"
    return figure, table, f"{what}; each at its chosen step."
