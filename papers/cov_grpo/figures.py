"""Figures of the covariance statistics and of the laptop runs, from result files alone.

rlvr figures paper=cov_grpo [results_dir=results]
"""

from pathlib import Path

import pandas as pd

from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.palette import colors
from common.plotting import panels, save
from papers.cov_grpo import laptop
from papers.cov_grpo.covariance import figures as covariance_figures

MAIN = colors(["GRPO", "CW-GRPO", "Clip-Cov", "CW-GRPO (by group)", "CW-GRPO (repository)"])
CHECKPOINTS = (1, 1.5, 2)  # checkpoints of Table 3, in units of the training horizon


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow, into <root>/cov_grpo/figures/."""
    folder, source = root / "cov_grpo" / "figures", root / "cov_grpo" / "covariance"
    if (source / "steps.csv").exists():
        covariance_figures.draw(source, folder)
    rows, _ = read(root, "cov_grpo", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    curves, measured = laptop.read(root, "training"), laptop.read(root, "stability")
    for table in laptop_figures.tables(rows, MAIN):
        shown = rows[(rows["table"] == table) | (rows["method"] == "base")]
        fig1(curves[curves["table"] == table], folder / f"{table}_fig1")
        table3(shown, folder / f"{table}_table3")
        stability(measured[measured["table"] == table], folder / f"{table}_stability")


def fig1(curves: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 1: entropy along training, and the training reward beside it.

    Thin lines are seeds, thick lines their mean.
    """
    shown = laptop_figures.present(curves, MAIN)
    if not shown:
        return
    figure, axes = panels(2, width=4.0, height=2.9)
    for axis, metric in zip(axes[0], ("entropy", "reward"), strict=True):
        for method, color in shown.items():
            runs = curves[curves["method"] == method]
            for _, seed in runs.groupby("seed"):
                axis.plot(seed["step"], seed[metric], color=color, lw=0.6, alpha=0.35)
            mean = runs.groupby("step")[metric].mean()
            line = laptop_figures.style(method)["linestyle"]
            axis.plot(mean.index, mean, line, color=color, label=method)
        axis.set(xlabel="step", title={"entropy": "policy entropy (nats a token)"}.get(metric))
    axes[0, 1].set_title("training reward")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, path, curves[curves["method"].isin(list(shown))])


def table3(rows: pd.DataFrame, path: Path) -> None:
    """Draw the laptop's counterpart of Table 3: accuracy and test entropy at 1, 1.5 and 2 horizons.

    Points are means over seeds, bars standard errors.
    """
    shown = laptop_figures.present(rows, MAIN)
    last = rows["step"].max()
    steps = [int(last * share / CHECKPOINTS[-1]) for share in CHECKPOINTS]
    if not shown or not set(steps) <= set(rows["step"]):
        return
    cells = {
        "natural pass@1 (%)": ("natural", "pass@1"),
        "rare pass@1 (%)": ("rare", "pass@1"),
        "token entropy, natural (nats)": ("natural", "token_entropy"),
    }
    figure, axes = panels(3, width=3.0, height=2.9)
    drawn = []
    for axis, (title, (benchmark, metric)) in zip(axes[0], cells.items(), strict=True):
        for method, color in shown.items():
            curve = laptop_figures.over_seeds(rows, method, benchmark, metric, "step")
            curve = curve[curve["step"].isin(steps)]
            drawn_as = {"color": color, "label": method} | laptop_figures.style(method)
            axis.errorbar(curve["step"], curve["mean"], curve["sem"], **drawn_as)
            drawn.append(curve.assign(method=method, benchmark=benchmark, metric=metric))
        axis.set_xticks(steps)
        axis.set(xlabel="step", title=title)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, path, pd.concat(drawn))


def stability(measured: pd.DataFrame, path: Path) -> None:
    """Draw the stability of entropy (`laptop.stability`): dots are seeds, lines their means."""
    names = list(laptop_figures.present(measured, MAIN))
    if not names:
        return
    metrics = ("entropy_range", "entropy_swing", "entropy_drop", "entropy_jitter", "entropy_end")
    figure, axes = panels(len(metrics), width=2.2, height=2.7)
    drawn = measured[measured["method"].isin(names)]
    for axis, metric in zip(axes[0], metrics, strict=True):
        for x, method in enumerate(names):
            values = drawn[(drawn["method"] == method) & (drawn["metric"] == metric)]["value"]
            style = dict(color=MAIN[method], markersize=4, alpha=0.6, clip_on=False)
            axis.plot([x] * len(values), values, "o", **style)
            axis.hlines(values.mean(), x - 0.3, x + 0.3, color=MAIN[method])
        axis.set_xticks(range(len(names)), names, fontsize=7, rotation=30, ha="right")
        axis.set(title=metric.replace("_", " ") + " (nats)", ylim=(0, None))
        axis.title.set_fontsize(8)
    save(figure, path, drawn)
