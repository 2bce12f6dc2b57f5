"""Figures of the laptop runs and of the simulation, from result files alone.

    python -m papers.f_grpo.figures [results_dir=results]

Theory's figures are drawn by theory_figures.py. Fig. 1b,c's counterpart here is laptop_group_size.
"""

from pathlib import Path

import pandas as pd

from common.cli import guard, options
from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.plotting import COLORS, panels, save
from common.results.files import write_csv
from papers.f_grpo import simulation_figure, tail_miss

MAIN = {
    "GRPO (N=2)": COLORS[2],
    "GRPO (N=8)": COLORS[0],
    "GRPO (N=32)": COLORS[5],
    "F-GRPO (N=8, gamma=1)": COLORS[1],
}


def draw(root: Path) -> None:
    """Every figure that the results below `root` allow, into <root>/f_grpo/figures/."""
    folder = root / "f_grpo" / "figures"
    simulation = root / "f_grpo" / "simulation"
    if (simulation / "final.csv").exists():
        final, trajectory = (
            pd.read_csv(simulation / name) for name in ("final.csv", "trajectory.csv")
        )
        simulation_figure.figure(final, trajectory, folder)
    rows, _ = read(root, "f_grpo", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    for table in rows["table"].unique():
        group_size(rows[rows["table"] == table], folder / f"{table}_group_size")
    measured_tail_miss(root, rows, folder / "laptop_tail_miss")


def group_size(rows: pd.DataFrame, path: Path) -> None:
    """Fig. 1b,c's counterpart: pass@1 and pass@64 by group size, F-GRPO beside N=8; dots are
    seeds."""
    own = laptop_figures.last(rows)
    figure, axes = panels(3, width=2.9)
    drawn = []
    shown = [("natural", "pass@1"), ("rare", "pass@64"), ("training", "active_groups")]
    for axis, (benchmark, metric) in zip(axes[0], shown, strict=True):
        for x, (method, color) in enumerate(MAIN.items()):
            hits = own[
                (own["method"] == method)
                & (own["benchmark"] == benchmark)
                & (own["metric"] == metric)
            ]
            axis.bar(x, hits["value"].mean(), color=color, alpha=0.35)
            axis.plot([x] * len(hits), hits["value"], "o", color=color, markersize=4)
            drawn.append(hits)
        axis.set_xticks(range(4), ["N=2", "N=8", "N=32", "F, N=8"])
        axis.set(title=f"{benchmark} {metric} (%)", ylim=(0, None))
    save(figure, path, pd.concat(drawn))


def measured_tail_miss(root: Path, rows: pd.DataFrame, path: Path) -> None:
    """Lemma 3.1 against the groups of real samples, base model and trained ones, natural prompts.

    Also writes <root>/f_grpo/laptop/tail_miss.csv. Nothing is drawn where no samples are stored.
    """
    table = root / "f_grpo" / "laptop" / "tail_miss.csv"
    runs = rows[(rows["seed"] == 1) & rows["method"].isin(["base", *MAIN])]
    runs = runs[["table", "method", "run_id"]].drop_duplicates()
    frames = []
    for name, method, run_id in runs.values:
        samples = root / "f_grpo" / run_id / "samples" / "natural.jsonl.gz"
        if samples.exists():
            frames.append(
                tail_miss.measure(samples).assign(table=name, method=method, run_id=run_id)
            )
    if frames:
        write_csv(table, pd.concat(frames))
    if not table.exists():
        return
    drawn = pd.read_csv(table)
    drawn = drawn[drawn["table"] != "laptop_standard"]
    figure, axes = panels(1, width=4.6, height=3.2)
    axis = axes[0, 0]
    for method, own in drawn.groupby("method", sort=False):
        color = MAIN.get(method, COLORS[6])
        axis.plot(own["N"], own["predicted"], color=color, label=method)
        axis.errorbar(
            own["N"], own["measured"], own["difference_stderr"], fmt="o", color=color, markersize=4
        )
    axis.set_xscale("log", base=2)
    axis.set_xticks(own["N"], own["N"].astype(str))
    axis.set(xlabel="group size N", ylabel=r"$\Pr(\mathcal{B}_\tau)$", ylim=(0, None))
    axis.set_title("lines: Lemma 3.1; points: measured groups", fontsize=9)
    axis.legend(fontsize=8)
    save(figure, path, drawn)


if __name__ == "__main__":
    guard(lambda: draw(Path(options(__doc__, {"results_dir": "results"})["results_dir"])))
