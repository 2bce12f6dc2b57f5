"""The figures of F-GRPO that are drawn from the result rows of cluster runs.

They are Figs 1b and 1c, the pass@k curves of the second version's Tables 12 to 14, its Figs 8 to
10, App. H.3's choice of gamma (gamma.py) and the second version's Figs 6 and 7 (maze_figures.py).
`rlvr compare paper=f_grpo` and the last job of a cluster sweep draw them.
"""

from pathlib import Path

import pandas as pd

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
from common.palette import look
from common.plotting import panels, save
from papers.f_grpo import gamma, maze_figures

GROUPS = {  # Fig. 1's settings, as Table 3 names them: tick label, colour
    "GRPO (N=2)": ("N=2", look("GRPO (N=2)").color),
    "GRPO (N=8)": ("N=8", look("GRPO (N=8)").color),
    "GRPO (N=32)": ("N=32", look("GRPO (N=32)").color),
    "F-GRPO (N=8)": ("F, N=8", look("F-GRPO").color),
}
FIG1 = {"fig1b": "AIME25", "fig1c": "IFEval"}
LADDERS = {  # printed table of pass@1 to pass@256 -> its model
    "table12_v2": "Qwen2.5-7B",
    "table13_v2": "Qwen3-4B-Base",
    "table14_v2": "Llama-3.2-3B-Instruct",
}
SETS = ["AIME24", "AIME25", "AMC", "MATH500", "Minerva", "Olympiad", "IFEval", "SynLogic", "GPQA"]
BASES = ("GRPO", "DAPO", "CISPO")
DENSE = "AIME25 (n=64)"  # the benchmark of the second version's Figs 8 to 10
DYNAMICS = [  # the panels of the second version's Figs 8 to 10
    Curve("AIME25 pass@1 (%)", benchmark=DENSE, metric="pass@1"),
    Curve("reward", column="reward", ema=0.08),
    Curve("entropy (nats a token)", column="entropy"),
    Curve("response length (tokens)", column="response_length"),
]


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw every figure whose runs are there as <root>/f_grpo/figures/cluster_*. Return for each
    figure its caption, or the reason why it was left out.

    cells: the printed cells of the comparison, with their training step and samples a problem;
    cluster: the gathered cluster runs.
    """
    folder, rows = root / "f_grpo" / "figures", cluster.rows
    made = [group_sizes(cells, name, folder) for name in FIG1]
    made += [ladder(cells, table, base, folder) for table in LADDERS for base in BASES]
    made += [dynamics(root, rows, number, base) for number, base in enumerate(BASES, 8)]
    return [*made, gamma.draw(root, rows), *maze_figures.draw(root, rows)]


def group_sizes(cells: pd.DataFrame, name: str, folder: Path) -> Figure:
    """Draw Fig. 1b or 1c: pass@1 and pass@256 of Table 3's four settings on one benchmark."""
    wanted = [
        {"table": "table3", "method": method, "benchmark": FIG1[name], "metric": metric}
        for metric in ("pass@1", "pass@256")
        for method in GROUPS
    ]

    def picture(found: pd.DataFrame) -> str:
        figure, axes = panels(2, width=2.9, height=2.9)
        for axis, (metric, part) in zip(axes[0], found.groupby("metric", sort=False), strict=True):
            for x, method in enumerate(GROUPS):
                whiskers(axis, part[part["method"] == method], [x], GROUPS[method][1])
            percent(axis)
            axis.set_xticks(range(len(GROUPS)), [label for label, _ in GROUPS.values()])
            axis.set(title=f"{FIG1[name]} {metric} (%)", xlim=(-0.5, len(GROUPS) - 0.5))
        marks = legend_handles(axes[0, 0], {})
        figure.legend(handles=marks, loc="outside lower center", ncols=2)
        save(figure, folder / f"cluster_{name}", found)
        return (
            f"Fig. {name.removeprefix('fig')}: {FIG1[name]}, Qwen2.5-7B by group size N, k = 1 and "
            f"256. {about(found)}"
        )

    return once(name, *chosen(cells, wanted), picture)


def dynamics(root: Path, rows: pd.DataFrame, number: int, base: str) -> Figure:
    """Draw Fig. 8, 9 or 10 of the second version: a method and its focal variant along training."""
    return along(
        root,
        "f_grpo",
        rows[rows["table"] == "table1_v2"],
        name=f"v2_fig{number}",
        model="Qwen3-4B-Base",
        colors={method: look(method).color for method in (base, f"F-{base}")},
        curves=DYNAMICS,
        about=f"Fig. {number} of the second version: Qwen3-4B-Base along training, AIME25 with 64 "
        "samples a problem. The reward is a moving average to which each step adds 0.08 of its "
        "own, our reading of the printed coefficient.",
    )


def ladder(cells: pd.DataFrame, table: str, base: str, folder: Path) -> Figure:
    """Draw pass@k of a method and its focal variant on every benchmark, k = 1, 2, ..., 256.

    These are the rows of the two methods in Table 12, 13 or 14 of the second version.
    """
    colors = {name: look(name).color for name in (base, f"F-{base}")}
    name = f"{table}_{base.lower()}"
    wanted = [
        {"table": table, "method": method, "benchmark": benchmark}
        for benchmark in SETS
        for method in colors
    ]

    def picture(found: pd.DataFrame) -> str:
        figure, axes = panels(5, 2, width=2.3, height=2.3)
        places = axes.flatten()
        for axis, benchmark in zip(places, SETS, strict=False):
            for i, (method, color) in enumerate(colors.items()):
                own = found[(found["method"] == method) & (found["benchmark"] == benchmark)]
                own = own.sort_values("k")
                whiskers(axis, own, own["k"] * 1.1 ** (2 * i - 1), color)  # drawn side by side
            percent(axis)
            axis.set_xscale("log", base=2)
            axis.set_xticks([1, 4, 16, 64, 256], ["1", "4", "16", "64", "256"])
            axis.set(title=benchmark, xlabel="k")
        for axis in axes[:, 0]:
            axis.set_ylabel("pass@k (%)")
        places[-1].axis("off")
        places[-1].legend(handles=legend_handles(places[-1], colors), loc="center", fontsize=10)
        save(figure, folder / f"cluster_{name}", found)
        number = table.removeprefix("table").removesuffix("_v2")
        return (
            f"Table {number} of the second version: {LADDERS[table]}, {base} and F-{base}, pass@k "
            f"for k = 1, 2, 4, ..., 256. {about(found)}"
        )

    return once(name, *chosen(cells, wanted), picture)
