"""Figures of the laptop runs and of the simulation, from result files alone.

    python -m papers.f_grpo.figures [results_dir=results]

Theory's figures are drawn by theory_figures.py. Fig. 1b,c's counterpart here is laptop_group_size.
"""

from pathlib import Path

import pandas as pd

from common import compare
from common.cli import guard, options
from common.plotting import COLORS, panels, save
from common.results import write_csv
from papers.f_grpo import matched, simulation_figure, tail_miss

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
    rows, _ = compare.read(root, "f_grpo", "laptop")
    for table in (name for name in rows["table"].unique() if name != "laptop"):
        own = rows[(rows["table"] == table) | (rows["method"] == "base")]
        training(own, folder / f"{table}_training")
        at_matched(own, table, folder / f"{table}_matched")
        pass_at_k(own, folder / f"{table}_passk")
        group_size(own, folder / f"{table}_group_size")
        methods(own, folder / f"{table}_methods")
    measured_tail_miss(root, rows, folder / "laptop_tail_miss")


def _present(rows: pd.DataFrame) -> dict[str, str]:
    """The main methods that have rows, so that a legend names no line that is not there."""
    return {method: color for method, color in MAIN.items() if method in set(rows["method"])}


def training(rows: pd.DataFrame, path: Path) -> None:
    """pass@1 on natural, pass@64 on rare prompts and token entropy along training; mean and
    standard error over seeds."""
    shown = {
        "natural pass@1 (%)": ("natural", "pass@1"),
        "rare pass@64 (%)": ("rare", "pass@64"),
        "token entropy, natural (nats)": ("natural", "token_entropy"),
        "Delta NLL, base-rare correct (nats)": ("rare-correct set", "delta_NLL_rare"),
    }
    figure, axes = panels(len(shown), width=3.0, height=2.9)
    drawn = []
    for axis, (title, (benchmark, metric)) in zip(axes[0], shown.items(), strict=True):
        for method, color in _present(rows).items():
            curve = _over_seeds(rows, method, benchmark, metric, "step")
            axis.errorbar(
                curve["step"],
                curve["mean"],
                curve["sem"],
                color=color,
                marker="o",
                markersize=3,
                label=method,
            )
            drawn.append(curve.assign(method=method, benchmark=benchmark, metric=metric))
        axis.set(xlabel="step", title=title)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, path, pd.concat(drawn))


def at_matched(rows: pd.DataFrame, table: str, path: Path) -> None:
    """Diversity against accuracy along training: thin lines are seeds, thick their mean step by
    step."""
    points = matched.curves(rows, table)
    figure, axes = panels(1, width=5.2, height=3.6)
    axis = axes[0, 0]
    for method, color in _present(points).items():
        own = points[points["method"] == method]
        for _, curve in own.groupby("seed"):
            axis.plot(curve["accuracy"], curve["diversity"], color=color, alpha=0.25, linewidth=0.8)
        mean = own.groupby("step")[["accuracy", "diversity"]].mean()
        axis.plot(mean["accuracy"], mean["diversity"], color=color, marker="o", label=method)
    axis.set(
        xlabel="natural pass@1 (%)",
        ylabel="rare pass@64 (%)",
        title="higher at the same pass@1 keeps more diversity",
    )
    axis.legend()
    save(figure, path, points)


def pass_at_k(rows: pd.DataFrame, path: Path) -> None:
    """pass@k against k after the last step, natural and rare prompts."""
    figure, axes = panels(2, width=3.6)
    drawn = []
    for axis, benchmark in zip(axes[0], ("natural", "rare"), strict=True):
        for method, color in ({"base": COLORS[6]} | _present(rows)).items():
            own = _last(rows[rows["metric"].str.startswith("pass@")])
            curve = _over_seeds(own, method, benchmark, None, "k")
            style = "--" if method == "base" else "-"
            axis.errorbar(
                curve["k"], curve["mean"], curve["sem"], color=color, linestyle=style, label=method
            )
            drawn.append(curve.assign(method=method, benchmark=benchmark))
        axis.set_xscale("log", base=2)
        axis.set(xlabel="k", ylabel="pass@k (%)", title=f"{benchmark} prompts")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, path, pd.concat(drawn))


def group_size(rows: pd.DataFrame, path: Path) -> None:
    """Fig. 1b,c's counterpart: pass@1 and pass@64 by group size, F-GRPO beside N=8; dots are
    seeds."""
    own = _last(rows)
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


def methods(rows: pd.DataFrame, path: Path) -> None:
    """Every method after its last step: accuracy and diversity, mean and standard error over
    seeds."""
    shown = [("natural", "pass@1"), ("rare", "pass@64"), ("natural", "distinct_correct")]
    own = _last(rows)
    names = list(own["method"].unique())[::-1]
    figure, axes = panels(len(shown), width=2.6, height=0.9 + 0.22 * len(names), sharey=True)
    drawn = []
    for axis, (benchmark, metric) in zip(axes[0], shown, strict=True):
        for y, method in enumerate(names):
            point = _over_seeds(own, method, benchmark, metric, "method")
            color = MAIN.get(method, COLORS[7])
            axis.errorbar(point["mean"], [y] * len(point), xerr=point["sem"], fmt="o", color=color)
            drawn.append(point.assign(benchmark=benchmark, metric=metric))
        title = metric.replace("_", " ") + ("" if metric == "distinct_correct" else " (%)")
        axis.set(xlabel=f"{benchmark} {title}")
        axis.set_yticks(range(len(names)), names)
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


def _last(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["step"] == rows.groupby("run_id")["step"].transform("max")]


def _over_seeds(rows, method: str, benchmark: str, metric: str | None, by: str) -> pd.DataFrame:
    """Mean and standard error over seeds of one method's values, by step, k or method."""
    own = rows[(rows["method"] == method) & (rows["benchmark"] == benchmark)]
    own = own if metric is None else own[own["metric"] == metric]
    grouped = own.groupby(by)["value"].agg(["mean", "sem", "size"]).reset_index()
    if by == "step" and metric is not None:
        base = rows[(rows["method"] == "base") & (rows["benchmark"] == benchmark)]
        base = base[base["metric"] == metric]
        start = base.groupby("step")["value"].agg(["mean", "sem", "size"]).reset_index()
        grouped = pd.concat([start, grouped], ignore_index=True)
    return grouped.rename(columns={"size": "n_seeds"})


if __name__ == "__main__":
    guard(lambda: draw(Path(options(__doc__, {"results_dir": "results"})["results_dir"])))
