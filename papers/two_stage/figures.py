"""Figures of the toy and of the laptop runs, drawn from result files alone.

    rlvr figures paper=two_stage [results_dir=results]

`python -m papers.two_stage.theory` draws the figure of the theory.
"""

from pathlib import Path

import pandas as pd

from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.palette import colors
from common.plotting import COLORS, panels, save
from papers.two_stage import laptop
from papers.two_stage.toy import figures as toy_figures

MAIN = colors(["GRPO", "GRPO-N", "GSPO", "GSPO-N"])
# the runs with the token mean are in another table, so they can share the colours
MAIN |= {f"{method} (token mean)": MAIN[method] for method in ("GRPO", "GRPO-N")}
BOUNDARY_K = 64  # k of the boundary: samples a problem along training
TASKS = ("natural", "rare", "shifted")


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow into <root>/two_stage/figures/."""
    folder = root / "two_stage" / "figures"
    toy = root / "two_stage" / "toy"
    if (toy / "ends.csv.gz").exists():
        toy_figures.draw(toy, folder)
    rows, counts = read(root, "two_stage", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    training, entropies = laptop.read(root, "training"), laptop.read(root, "entropies")
    for table in laptop_figures.tables(rows, MAIN):
        shown = rows[(rows["table"] == table) | (rows["method"] == "base")]
        curve = training[training["table"] == table]
        fig2(shown, curve, folder / f"{table}_fig2")
        table1(shown, folder / f"{table}_table1")
        stages(shown, curve, folder / f"{table}_stages")
        near = entropies[(entropies["table"] == table) | (entropies["method"] == "base")]
        table4(near, folder / f"{table}_entropies")
        near = counts[(counts["table"] == table) | (counts["method"] == "base")]
        boundary(near, folder / f"{table}_boundary")


def fig2(rows: pd.DataFrame, training: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 2's four curves: accuracy and entropy on test prompts, and the actor's entropy and
    the mean reward in training; mean and standard error over seeds.

    Accuracy is pass@1 of sampled answers; the paper decodes greedily.
    """
    shown = laptop_figures.present(rows, MAIN)
    if not shown:
        return
    figure, axes = panels(4, width=3.0, height=2.9)
    drawn = []
    tests = {"test pass@1 (%)": "pass@1", "test entropy (nats a token)": "token_entropy"}
    for axis, (title, metric) in zip(axes[0], tests.items(), strict=False):
        for method, color in shown.items():
            curve = laptop_figures.over_seeds(rows, method, "natural", metric, "step")
            axis.errorbar(curve["step"], curve["mean"], curve["sem"], color=color, marker="o",
                          markersize=3, label=method)  # fmt: skip
            drawn.append(curve.assign(method=method, metric=metric))
        axis.set(xlabel="step", title=title)
    train = {"actor entropy (nats a token)": "entropy", "mean reward": "reward"}
    for axis, (title, metric) in zip(axes[0, 2:], train.items(), strict=True):
        drawn.append(along(axis, training, metric, shown))
        axis.set(xlabel="step", title=title)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, path, pd.concat(drawn))


def along(axis, training: pd.DataFrame, metric: str, shown: laptop_figures.Colors) -> pd.DataFrame:
    """Draw one measure of training by step, as mean and standard error over seeds. Return what was
    drawn."""
    drawn = []
    for method, color in shown.items():
        runs = training[training["method"] == method].groupby("step")[metric]
        curve = runs.agg(["mean", "sem", "size"]).reset_index()
        axis.plot(curve["step"], curve["mean"], color=color, lw=1.2)
        low, high = curve["mean"] - curve["sem"], curve["mean"] + curve["sem"]
        axis.fill_between(curve["step"], low, high, color=color, alpha=0.2, lw=0)
        named = curve.rename(columns={"size": "n_seeds"})
        drawn.append(named.assign(method=method, metric=f"training {metric}"))
    return pd.concat(drawn)


def table1(rows: pd.DataFrame, path: Path) -> None:
    """Draw the counterpart of Table 1: pass@k after the last step, in domain (natural, rare) and
    out of domain (shifted: five numbers); mean and standard error over seeds."""
    shown = laptop_figures.present(rows, MAIN)
    if not shown:
        return
    figure, axes = panels(3, width=3.0, height=2.9, sharey=True)
    last = laptop_figures.last(rows[rows["metric"].str.startswith("pass@")])
    drawn = []
    for axis, benchmark in zip(axes[0], TASKS, strict=True):
        for method, color in ({"base": COLORS[7]} | shown).items():
            curve = laptop_figures.over_seeds(last, method, benchmark, None, "k")
            style = "--" if method == "base" else "-"
            axis.errorbar(
                curve["k"], curve["mean"], curve["sem"], color=color, ls=style, label=method
            )
            drawn.append(curve.assign(method=method, benchmark=benchmark))
        axis.set_xscale("log", base=2)
        axis.set(xlabel="k", title=f"{benchmark} prompts")
    axes[0, 0].set_ylabel("pass@k (%)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    save(figure, path, pd.concat(drawn))


def stages(rows: pd.DataFrame, training: pd.DataFrame, path: Path) -> None:
    """Draw whether a second, exploring stage follows: entropy and the boundary (pass@64 of each
    task) by step; mean and standard error over seeds.

    The dotted line is the base model. A boundary that falls and then rises again would be such a
    stage.
    """
    shown = laptop_figures.present(rows, MAIN)
    if not shown or training.empty:
        return
    figure, axes = panels(4, width=3.0, height=2.9)
    drawn = [along(axes[0, 0], training, "entropy", shown)]
    axes[0, 0].set(xlabel="step", title="actor entropy (nats a token)", ylim=(0, None))
    metric = f"pass@{BOUNDARY_K}"
    for axis, benchmark in zip(axes[0, 1:], TASKS, strict=True):
        for method, color in shown.items():
            curve = laptop_figures.over_seeds(rows, method, benchmark, metric, "step")
            axis.errorbar(curve["step"], curve["mean"], curve["sem"], color=color, marker="o",
                          markersize=3, label=method)  # fmt: skip
            drawn.append(curve.assign(method=method, benchmark=benchmark, metric=metric))
        base = rows[(rows["method"] == "base") & (rows["benchmark"] == benchmark)]
        axis.axhline(base[base["metric"] == metric]["value"].mean(), color=COLORS[7], ls=":")
        axis.set(xlabel="step", title=f"{benchmark} {metric} (%)")
    figure.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, path, pd.concat(drawn))


def table4(entropies: pd.DataFrame, path: Path) -> None:
    """Draw Table 4's two entropies after the last step, by benchmark. Dots are seeds, lines their
    means."""
    names = ["base", *laptop_figures.present(entropies, MAIN)]
    if len(names) == 1:
        return
    cells = [(b, m) for b in ("natural", "rare") for m in laptop.ENTROPIES]
    figure, axes = panels(4, width=2.7, height=2.5)
    drawn = []
    for axis, (benchmark, metric) in zip(axes[0], cells, strict=True):
        for x, method in enumerate(names):
            seeds = entropies[
                (entropies["method"] == method)
                & (entropies["benchmark"] == benchmark)
                & (entropies["metric"] == metric)
            ]
            color = MAIN.get(method, COLORS[7])
            axis.plot([x] * len(seeds), seeds["value"], "o", color=color, markersize=4, alpha=0.6)
            axis.hlines(seeds["value"].mean(), x - 0.3, x + 0.3, color=color)
            drawn.append(seeds)
        lines = [name.replace(" (", "\n(") for name in names]
        axis.set_xticks(range(len(names)), lines, fontsize=7)
        title = f"{benchmark}: {metric.replace('_', ' ')}\n({laptop.ENTROPIES[metric]})"
        axis.set_title(title, fontsize=8)
        axis.set(ylim=(0, None))
    save(figure, path, pd.concat(drawn))


def boundary(counts: pd.DataFrame, path: Path) -> None:
    """Draw what each method's boundary gained and lost against the base model along training, by
    pass@64 of each problem; mean and standard error over seeds."""
    moved = laptop.boundary(counts, BOUNDARY_K)
    shown = laptop_figures.present(moved, MAIN)
    if not shown:
        return
    figure, axes = panels(2, width=3.6, height=2.9, sharey=True)
    drawn = []
    for axis, benchmark in zip(axes[0], ("natural", "rare"), strict=True):
        for method, color in shown.items():
            runs = moved[(moved["method"] == method) & (moved["benchmark"] == benchmark)]
            for side, sign in (("gained", 1), ("lost", -1)):
                curve = runs.groupby("step")[side].agg(["mean", "sem", "size"]).reset_index()
                axis.errorbar(
                    curve["step"], sign * curve["mean"], curve["sem"], color=color, marker="o",
                    markersize=3, ls="-" if sign > 0 else "--",
                    label=method if sign > 0 else None,
                )  # fmt: skip
                drawn.append(curve.assign(method=method, benchmark=benchmark, side=side))
        axis.axhline(0, color=COLORS[7], lw=0.8)
        axis.set(xlabel="step", title=f"{benchmark} prompts: gained (up), lost (down)")
    axes[0, 0].set_ylabel("pass@64 - base (points)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, path, pd.concat(drawn).rename(columns={"size": "n_seeds"}))
