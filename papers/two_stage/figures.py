"""Figures of the toy and of the laptop runs, drawn from result files alone.

    rlvr figures paper=two_stage [results_dir=results]

`python -m papers.two_stage.theory` draws the figure of the theory.
"""

from pathlib import Path

import pandas as pd

from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.palette import colors
from common.plotting import COLORS, band, dots, legend, panels, save
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
    rows, _ = read(root, "two_stage", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    training, entropies = laptop.read(root, "training"), laptop.read(root, "entropies")
    for table in laptop_figures.tables(rows, MAIN):
        shown = rows[(rows["table"] == table) | (rows["method"] == "base")]
        curve = training[training["table"] == table]
        fig2(shown, curve, folder / f"{table}_fig2")
        laptop_figures.pass_at_k(shown, MAIN, folder / f"{table}_table1", TASKS)
        stages(shown, curve, folder / f"{table}_stages")
        near = entropies[(entropies["table"] == table) | (entropies["method"] == "base")]
        table4(near, folder / f"{table}_entropies")


def fig2(rows: pd.DataFrame, training: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 2's four curves: accuracy and entropy on test prompts, and the actor's entropy and
    the mean reward in training; mean and standard error over seeds.

    Accuracy is pass@1 of sampled answers; the paper decodes greedily.
    """
    shown = laptop_figures.present(rows, MAIN)
    if not shown:
        return
    figure, axes = panels(4, width=3.0, height=2.9)
    tests = {
        "test pass@1 (%)": ("natural", "pass@1"),
        "test entropy (nats a token)": ("natural", "token_entropy"),
    }
    drawn = [laptop_figures.along(axes[0], rows, MAIN, tests)]
    train = {"actor entropy (nats a token)": "entropy", "mean reward": "reward"}
    for axis, (title, metric) in zip(axes[0, 2:], train.items(), strict=True):
        drawn.append(along(axis, training, metric, shown))
        axis.set(xlabel="step", title=title)
    legend(figure, axes[0, 0], 4)
    save(figure, path, pd.concat(drawn))


def along(axis, training: pd.DataFrame, metric: str, shown: laptop_figures.Colors) -> pd.DataFrame:
    """Draw one measure of training by step, as mean and standard error over seeds. Return what was
    drawn."""
    drawn = []
    for method, color in shown.items():
        runs = training[training["method"] == method].groupby("step")[metric]
        curve = runs.agg(["mean", "sem", "size"]).reset_index()
        edges = {"low": curve["mean"] - curve["sem"], "high": curve["mean"] + curve["sem"]}
        band(axis, curve["step"], curve.assign(**edges), color, lw=1.2)
        named = curve.rename(columns={"size": "n_seeds"})
        drawn.append(named.assign(method=method, metric=f"training {metric}"))
    return pd.concat(drawn)


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
    tasks = {f"{benchmark} {metric} (%)": (benchmark, metric) for benchmark in TASKS}
    drawn.append(laptop_figures.along(axes[0, 1:], rows, MAIN, tasks))
    for axis, benchmark in zip(axes[0, 1:], TASKS, strict=True):
        base = rows[(rows["method"] == "base") & (rows["benchmark"] == benchmark)]
        axis.axhline(base[base["metric"] == metric]["value"].mean(), color=COLORS[7], ls=":")
    legend(figure, axes[0, 1], 4)
    save(figure, path, pd.concat(drawn))


def table4(entropies: pd.DataFrame, path: Path) -> None:
    """Draw Table 4's two entropies after the last step, by benchmark. Dots are seeds, lines their
    means."""
    shown = {"base": COLORS[7]} | laptop_figures.present(entropies, MAIN)
    if len(shown) == 1:
        return
    cells = [(b, m) for b in ("natural", "rare") for m in laptop.ENTROPIES]
    figure, axes = panels(4, width=2.7, height=2.5)
    drawn = []
    for axis, (benchmark, metric) in zip(axes[0], cells, strict=True):
        part = entropies[entropies["benchmark"].eq(benchmark) & entropies["metric"].eq(metric)]
        dots(axis, part, shown, [name.replace(" (", "\n(") for name in shown], fontsize=7)
        title = f"{benchmark}: {metric.replace('_', ' ')}\n({laptop.ENTROPIES[metric]})"
        axis.set_title(title, fontsize=8)
        drawn.append(part[part["method"].isin(list(shown))])
    save(figure, path, pd.concat(drawn))
