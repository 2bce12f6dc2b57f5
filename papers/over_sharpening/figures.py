"""Figures of the laptop runs and of the toy, drawn from result files alone.

    rlvr figures paper=over_sharpening [results_dir=results]

`python -m papers.over_sharpening.theory` draws the figures of the theory.
"""

from pathlib import Path

import pandas as pd

from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.palette import colors
from common.plotting import COLORS, by_seed, legend, panels, save
from papers.over_sharpening import laptop
from papers.over_sharpening.toy import figures as toy_figures

MAIN = colors(["GRPO", "IAC", "IAC (equal max weight)", "DAPO", "DAPO+IAC"])
ENTROPY = colors(laptop.METHODS)
ALPHAS = {  # Table 5: alpha -> (method at the same learning rate, method at equal largest weight)
    0.0: ("GRPO", "GRPO"),
    0.5: ("IAC (alpha=0.5)", "IAC (alpha=0.5, equal max weight)"),
    1.0: ("IAC", "IAC (equal max weight)"),
    1.5: ("IAC (alpha=1.5)", "IAC (alpha=1.5, equal max weight)"),
    2.0: ("IAC (alpha=2)", "IAC (alpha=2, equal max weight)"),
}


def draw(root: Path) -> None:
    """Draw every figure that the results below `root` allow into <root>/over_sharpening/figures."""
    folder = root / "over_sharpening" / "figures"
    toy = root / "over_sharpening" / "toy"
    if (toy / "final.csv.gz").exists():
        toy_figures.draw(toy, folder)
    rows, _ = read(root, "over_sharpening", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    for table in laptop_figures.tables(rows, MAIN):
        entropy(laptop.read(root, table), folder / f"{table}_entropy")
        alphas(rows[rows["table"] == table], folder / f"{table}_alpha")


def entropy(drawn: pd.DataFrame, path: Path) -> None:
    """Draw the counterpart of Fig. 6: the token entropy of the policy on its own rollouts by step.
    Thin lines are seeds, thick lines their mean."""
    if drawn.empty:
        return
    figure, axes = panels(1, width=4.6, height=3.2)
    axis = axes[0, 0]
    by_seed(axis, drawn, "entropy", ENTROPY)
    axis.set(xlabel="step", ylabel="token entropy of the policy (nats)", ylim=(0, None))
    axis.legend()
    save(figure, path, None)


def alphas(rows: pd.DataFrame, path: Path) -> None:
    """Draw the counterpart of Table 5: pass@1 and pass@8 against alpha, at the same learning rate
    and at equal largest weight.

    A point is a run's mean over its last checkpoints, which is also what the claims use. Nothing is
    drawn where fewer than three alphas, 0 included, were run at the same learning rate.
    """
    ends = laptop_figures.late(rows)
    if sum(names[0] in set(ends["method"]) for names in ALPHAS.values()) < 3:
        return
    shown = [("natural", "pass@1"), ("natural", "pass@8"), ("rare", "pass@8")]
    figure, axes = panels(3, width=2.9)
    drawn = []
    for axis, (benchmark, metric) in zip(axes[0], shown, strict=True):
        hits = ends[(ends["benchmark"] == benchmark) & (ends["metric"] == metric)]
        for which, label in enumerate(("same learning rate", "equal largest weight")):
            points = pd.concat(
                [
                    hits[hits["method"] == names[which]].assign(alpha=alpha, comparison=label)
                    for alpha, names in ALPHAS.items()
                ]
            )
            mean = points.groupby("alpha")["value"].mean()
            axis.plot(points["alpha"], points["value"], "o", ms=3, color=COLORS[which], alpha=0.5)
            axis.plot(mean.index, mean, color=COLORS[which], label=label)
            drawn.append(points)
        filtered = hits[hits["method"] == "Filtering (easiest 25 %)"]
        if len(filtered):
            axis.axhline(filtered["value"].mean(), color="0.5", ls=":", label="filtering")
            drawn.append(filtered)
        axis.set(xlabel=r"$\alpha$", title=f"{benchmark} {metric} (%)")
    legend(figure, axes[0, 0], 3)
    save(figure, path, pd.concat(drawn))
