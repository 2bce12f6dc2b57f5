"""Draw Figs. 3 right, 5 left, 6 right and 8 left, and Tables 3 to 5 as figures with their standard
deviations, from cluster rows. `rlvr compare paper=fade` and the last job of a cluster sweep run it.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

from common.comparison.cells import CELL, same_runs
from common.comparison.cluster_figures import (
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
from common.comparison.published import published
from common.comparison.spec import spec_of
from common.config.files import ROOT
from common.metrics.passk import pass_at_k_table
from common.palette import colors
from common.plotting import COLORS, legend, panels, save
from papers.fade import cluster_curves

SMALL, LARGE = "Qwen 2.5 7B", "CWM 32B"
TABLES = {  # name of the figure: printed table, model
    "table3_7b": ("table3", SMALL),
    "table3_32b": ("table3", LARGE),
    "table4": ("table4", SMALL),
    "table5": ("table5", LARGE),
}
FADE = colors(["FADE H*=1.0", "FADE H*=1.3", "FADE H*=0.5", "FADE H*=H0/2"])
WEIGHED = ("GRPO", "mean GRPO", "Power alpha=2", "REINFORCE")  # Fig. 5 left
WEIGHED += tuple(f"AsymGRPO delta={delta}" for delta in ("0.3", "0.5", "0.7", "2"))
BY_DELTA = ("mean GRPO", *cluster_curves.DELTAS)  # Fig. 3 right
HEAD = {"s1/s2": "s1/s2", "srank": "srank with delta 0.01, which the paper does not print"}
RANK1 = {"rank1_fraction": "share of the largest singular value in the sum of squares, percent"}
GROUPS = 400  # Sec. 11.2
KEY = [*CELL[:4], "step"]


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw every figure whose rows exist into <root>/fade/figures/cluster_*.

    Return one Figure each: its caption, or the reason why it is left out. cells: the printed cells
    of the comparison, with step and samples; cluster: the gathered cluster runs.
    """
    printed = published(ROOT / "papers" / "fade" / "published")
    counts = same_runs(spec_of("fade"), cluster.counts, printed)
    folder = root / "fade" / "figures"
    made = [table(cells, counts, name, folder) for name in TABLES]
    made += [fig6(cells, name, model, folder) for name, model in (("7b", SMALL), ("32b", LARGE))]
    controller = along(
        root,
        "fade",
        cluster.rows,
        name="fig8",
        model=SMALL,
        colors=FADE,
        curves=[Curve("alpha", column="alpha"), Curve("delta", column="delta")],
        about=f"Fig. 8 left: what the controller chose along training, {SMALL}; step: a rollout "
        "of 10 optimiser steps.",
    )
    made += [
        weights(cluster.rows, folder, name="fig3_right", methods=BY_DELTA, metrics=RANK1),
        weights(cluster.rows, folder, name="fig5", methods=WEIGHED, metrics=HEAD),
        controller,
    ]
    return made + cluster_curves.draw(root, cluster)


def weights(
    rows: pd.DataFrame, folder: Path, *, name: str, methods: tuple[str, ...], metrics: dict
) -> Figure:
    """Draw Fig. 3 right or 5 left: the output head's weight change along training.

    metrics: name of a metric -> its description in the caption.
    """
    wanted = {metric: rows[rows["metric"].str.startswith(f"{metric}, step ")] for metric in metrics}
    parts = [part.assign(curve=metric) for metric, part in wanted.items()]
    found = pd.concat(parts)[["model", "method", "seed", "curve", "step", "value"]]
    lacking = sorted(set(methods) - set(found["method"]))
    if lacking:
        return Figure(f"cluster_{name}", left_out=f"rows without weights: {', '.join(lacking)}")
    figure, axes = panels(len(metrics), width=2.9, height=2.7)
    for axis, curve in zip(axes[0], metrics, strict=True):
        for method, color in colors(methods).items():
            line = found[(found["curve"] == curve) & (found["method"] == method)]
            axis.plot(*line.sort_values("step")[["step", "value"]].to_numpy().T, color=color,
                      marker="o", markersize=2.5, label=method)  # fmt: skip
        axis.set(title=f"output head, {curve}", xlabel="step")
    legend(figure, axes[0, 0], 3)
    save(figure, folder / f"cluster_{name}", found[found["method"].isin(methods)])
    number = {"fig5": "5 left", "fig3_right": "3 right"}[name]
    return Figure(
        f"cluster_{name}",
        f"Fig. {number}: the output head's weight change, {SMALL}; {'; '.join(metrics.values())}; "
        "step: a rollout of 10 optimiser steps.",
    )


def deviation(counts: pd.DataFrame, k: int) -> float:
    """Return the standard deviation, in percent, of pass@k over groups of 2 k samples a problem.

    Sec. 11.2: "we draw 2k samples and compute the mean over 400 groups of size 2k to estimate the
    standard deviation". We read the k of "2k" as the k of pass@k; read as 2,000 samples a group,
    the deviation would be smaller.

    counts: n, c of each problem. A group is drawn with replacement and each sample is right with
    the measured rate c / n, so the number of right samples in a group is binomial. The result is
    therefore exact and needs no sampling; 400 groups would estimate it to 1 / sqrt(2 * 399) =
    3.5 %.
    """
    right = np.arange(2 * k + 1)
    value = pass_at_k_table(2 * k, [k])[:, 0]
    chance = binom.pmf(right, 2 * k, (counts["c"] / counts["n"]).to_numpy()[:, None])
    variance = chance @ value**2 - (chance @ value) ** 2
    return 100 * float(np.sqrt(variance.clip(min=0).sum())) / len(counts)


def with_deviations(cells: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with a column `deviation`, from one seed's counts at the step of the cell.

    It is missing where there are counts of several seeds, or of none.
    """
    by_cell = dict(list(counts.groupby(KEY))) if len(counts) else {}
    values = []
    for cell in cells.to_dict("records"):
        steps = str(cell["step"])
        key = (*(cell[name] for name in CELL[:4]), float(steps) if steps.isdigit() else None)
        found = by_cell.get(key)
        one = found is not None and found["seed"].nunique(dropna=False) == 1
        values.append(deviation(found, int(cell["k"])) if one else None)
    return cells.assign(deviation=pd.Series(values, cells.index, dtype=float))


def table(cells: pd.DataFrame, counts: pd.DataFrame, name: str, folder: Path) -> Figure:
    """Draw one printed table of one model, with a panel for each column and a line per method."""
    number, model = TABLES[name]
    mine = (cells["table"] == number) & (cells["model"] == model)
    wanted = [
        {"table": number, "model": model, "benchmark": benchmark, "metric": metric}
        for benchmark, metric in cells.loc[mine, ["benchmark", "metric"]]
        .drop_duplicates()
        .itertuples(index=False)
    ]

    def picture(found: pd.DataFrame) -> str:
        found = with_deviations(found, counts)
        methods = list(dict.fromkeys(found["method"]))
        figure, axes = panels(len(wanted), width=2.4, height=0.9 + 0.3 * len(methods), sharey=True)
        for axis, where in zip(axes[0], wanted, strict=True):
            of = found["benchmark"].eq(where["benchmark"]) & found["metric"].eq(where["metric"])
            own = found[of].set_index("method").reindex(methods)
            y = range(len(methods))
            spread = (own["rerun"] - own["low"], own["high"] - own["rerun"])
            axis.errorbar(own["rerun"], y, xerr=spread, ls="", marker="o", markersize=2.5,
                          color=COLORS[0], elinewidth=0.7, capsize=1.5)  # fmt: skip
            axis.errorbar(own["rerun"], y, xerr=own["deviation"], ls="", color=COLORS[0],
                          elinewidth=3, alpha=0.4)  # fmt: skip
            axis.plot(own["printed"], y, "D", markerfacecolor="none", color=COLORS[1])
            axis.set_title(f"{where['benchmark']}\n{where['metric']} (%)", fontsize=9)
        axes[0, 0].set_yticks(range(len(methods)), methods)
        axes[0, 0].invert_yaxis()
        save(figure, folder / f"cluster_{name}", found)
        return (
            f"Table {number.removeprefix('table')}: {model}. {about(found)} Broad bars: one "
            f"standard deviation over groups of 2 k samples a problem, whose estimate from "
            f"{GROUPS} of them the paper gives (sec 11.2; 2k read as twice k; its printed "
            "deviations are not in our text)."
        )

    return once(name, *chosen(cells, wanted), picture)


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
        save(figure, folder / f"cluster_fig6_{size}", found)
        return f"Fig. 6 right: LiveCodeBench v6, {model}. {about(found)}"

    return once(f"fig6_{size}", *chosen(cells, wanted), picture)
