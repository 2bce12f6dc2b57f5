"""Fig. 6, the results of Table 5 against alpha, and the two readings of the peak, drawn from the
result rows of cluster runs.

`rlvr compare paper=over_sharpening` and the last job of a cluster sweep draw them.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from common.comparison.cells import CELL, as_printed
from common.comparison.cluster_figures import (
    Curve,
    Figure,
    about,
    along,
    chosen,
    legend_handles,
    once,
    percent,
    whiskers,
)
from common.comparison.gather import Gathered
from common.comparison.published import published
from common.comparison.spec import spec_of
from common.config.files import ROOT
from common.plotting import COLORS, legend, panels, save
from papers.over_sharpening.figures import ENTROPY

ALPHAS = {  # row of Table 5 -> alpha
    "IAC alpha=0 (=GRPO)": 0.0,
    "IAC alpha=0.5": 0.5,
    "IAC alpha=1": 1.0,
    "IAC alpha=1.5": 1.5,
    "IAC alpha=2": 2.0,
}
FILTER = "Filtering-based"
SHOWN = [
    (benchmark, metric) for metric in ("AVG@8", "PASS@8") for benchmark in ("Math500", "O-Bench")
]
BY_CELL = "peak_of_cell"  # column: the cell at its own best step, the second reading


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw every figure whose runs are there as <root>/over_sharpening/figures/cluster_*. Return
    for each figure its caption, or the reason why it was left out.

    cells: the printed cells of the comparison, with their training step and samples a problem;
    cluster: the gathered cluster runs.
    """
    folder, rows = root / "over_sharpening" / "figures", cluster.rows
    printed = published(ROOT / "papers" / "over_sharpening" / "published")
    spec = spec_of("over_sharpening")
    by_cell = replace(spec, steps=dict.fromkeys(spec.steps, "peak"))  # each cell at its own peak
    entropy = along(
        root,
        "over_sharpening",
        rows,
        name="fig6",
        model="Qwen3-8B",
        colors={method: ENTROPY[method] for method in ("DAPO", "DAPO+IAC")},
        curves=[Curve("entropy in training", column="entropy")],
        about="Fig. 6: entropy of Qwen3-8B's policy along training, nats a token, of its rollouts. "
        "Printed (App. I): DAPO falls to about 0.08, DAPO+IAC fluctuates between 0.20 and 0.24.",
    )
    return [
        entropy,
        alphas(cells, folder),
        peaks(cells, as_printed(by_cell, rows, printed), folder),
    ]


def alphas(cells: pd.DataFrame, folder: Path) -> Figure:
    """Draw Table 5: AVG@8 and PASS@8 on Math500 and O-Bench against alpha, and for filtering."""
    wanted = [
        {"table": "table5", "method": method, "benchmark": benchmark, "metric": metric}
        for benchmark, metric in SHOWN
        for method in (*ALPHAS, FILTER)
    ]

    def picture(found: pd.DataFrame) -> str:
        figure, axes = panels(len(SHOWN), width=2.4, height=2.7)
        for axis, (benchmark, metric) in zip(axes[0], SHOWN, strict=True):
            mine = found[(found["benchmark"] == benchmark) & (found["metric"] == metric)]
            swept = mine[mine["method"].isin(ALPHAS)]
            whiskers(axis, swept, swept["method"].map(ALPHAS).tolist(), COLORS[1])
            whiskers(axis, mine[mine["method"] == FILTER], [2.6], COLORS[5])
            percent(axis)
            axis.set_xticks([*ALPHAS.values(), 2.6], ["0", "0.5", "1", "1.5", "2", "filter"])
            axis.set(title=f"{benchmark} {metric} (%)", xlabel=r"$\alpha$")
        marks = legend_handles(axes[0, 0], {})
        figure.legend(handles=marks, loc="outside lower center", ncols=2)
        save(figure, folder / "cluster_alpha", found)
        return f"Table 5: Qwen3-8B, IAC by alpha, and filtering-based. {about(found)}"

    return once("alpha", *chosen(cells, wanted), picture)


def peaks(cells: pd.DataFrame, by_cell: pd.DataFrame, folder: Path) -> Figure:
    """Draw how much higher each rerun cell is at its own best checkpoint than at the checkpoint
    with the best average."""
    own = cells["table"].str.fullmatch("table[2-5]") & (cells["benchmark"] != "Avg")
    tables = cells[own & cells["rerun"].notna()]
    found, _ = chosen(tables, [{"metric": metric} for metric in ("AVG@8", "PASS@8")])
    name = "cluster_peaks"
    if found.empty:
        return Figure(name, left_out="no printed cell has a rerun")
    other = by_cell.groupby(CELL, dropna=False)["value"].mean().rename(BY_CELL).reset_index()
    found = found.merge(other, on=CELL, how="left")
    parts = list(found.groupby("metric"))  # no PASS@8 where only one sample was drawn
    figure, axes = panels(len(parts), width=3.6, height=2.9)
    for axis, (metric, part) in zip(axes[0], parts, strict=True):
        for color, (benchmark, own) in zip(COLORS, part.groupby("benchmark"), strict=False):
            higher = own[BY_CELL] - own["rerun"]
            axis.plot(own["rerun"], higher, "o", ms=4, color=color, label=benchmark)
        axis.axhline(0, color="0.6", lw=0.8)
        axis.set(
            xlabel=f"{metric} at the best average's step (%)", ylabel="own best step: higher by"
        )
    legend(figure, axes[0, 0], 4)
    save(figure, folder / name, found)
    far = {
        column: int(((found[column] - found["printed"]).abs() > _half(found)).sum())
        for column in ("rerun", BY_CELL)
    }
    return Figure(
        name,
        "The two readings of Sec. 4.1's peak (INC044). The tables take the step at which the "
        "average of the six sets is best, for AVG@8 and PASS@8 each; here is how much higher a "
        f"cell is at its own best step. Of {len(found)} printed cells {far['rerun']} differ from "
        f"the rerun by the first reading and {far[BY_CELL]} by the second.",
    )


def _half(found: pd.DataFrame) -> pd.Series:
    """Return half the width of the interval in which a printed number is within noise."""
    return (found["high"] - found["low"]) / 2 + 1e-9
