"""The tables and the figure of each testbed: `rlvr figures paper=yardstick [results_dir=...]`.

<results_dir>/<testbed>/laptop/           rows and counts of the finished runs
<results_dir>/<testbed>/ranking.csv, against_base.csv, controls.csv
<results_dir>/<testbed>/figures/areas.{png,pdf}
"""

from pathlib import Path

import pandas as pd

from common.comparison.gather import LAPTOP, gather, read
from common.palette import look
from common.plotting import COLORS, panels, save
from common.results.files import write_csv
from papers.yardstick.areas import (
    BASE,
    BEST,
    EQUAL_ACCURACY,
    GRPO,
    LEVELS,
    MARGIN,
    OWN,
    PRIMARY,
    RATES,
    RUN,
    TESTBEDS,
    curves,
    rank,
)
from papers.yardstick.tables import against_base, controls

RELIABLE = 0.5  # split-half reliability below which nothing is ranked


def draw(root: Path) -> None:
    """Make everything that the results below `root` allow."""
    for name, task in TESTBEDS.items():
        gather(root, name).write(root, name)
        rows, counts = read(root, name, LAPTOP)
        rows, counts = (one[one["table"].isin((BASE, *RATES))] for one in (rows, counts))
        if len(rows):
            show(root / name, task, rows, counts)


def show(folder: Path, task: str, rows: pd.DataFrame, counts: pd.DataFrame) -> None:
    at_last = counts["step"] == counts.groupby(RUN)["step"].transform("max")
    # the last evaluation draws more samples, so that it is no point of the frontier
    drawn = curves(rows, counts[~at_last | (counts["step"] == 0)])
    ranking = rank(drawn)
    write_csv(folder / "ranking.csv", ranking)
    write_csv(folder / "against_base.csv", against_base(rows, counts))
    write_csv(folder / "controls.csv", controls(drawn))
    figure(task, ranking, folder / "figures" / "areas")


def rows_of(ranking: pd.DataFrame, reading: str) -> pd.DataFrame:
    """Return the rows of a ranking for one reading, of the test's measure."""
    benchmark, metric = PRIMARY
    same = (ranking["benchmark"] == benchmark) & (ranking["metric"] == metric)
    return ranking[same & (ranking["reading"] == reading) & (ranking["equal"] == EQUAL_ACCURACY)]


def _ordered(ranking: pd.DataFrame) -> pd.DataFrame:
    """Return the test's rows, ranked where their order is reliable, else sorted by name."""
    tested = rows_of(ranking, BEST)
    ranked = (tested["reliability"] >= RELIABLE).any()
    return tested.sort_values("difference" if ranked else "method", ascending=not ranked)


def figure(task: str, ranking: pd.DataFrame, path: Path) -> None:
    """Draw the test as a dot with its interval for each method and, below these, the positive
    control: GRPO's own slower rates. The grey band is the margin."""
    own = rows_of(ranking, OWN)
    says = [
        f"{GRPO}, {rate.split()[-1]} minus {against.split()[-1]}"
        for rate, against in zip(own["rate"], own["against"], strict=True)
    ]
    best = _ordered(ranking)
    shown = pd.concat([best.assign(label=best["method"]), own.assign(label=says)])
    shown = shown.dropna(subset=["difference"]).iloc[::-1]  # the first on top
    drawn, axes = panels(1, width=6.4, height=0.9 + 0.22 * max(len(shown), 4))
    axis = axes[0, 0]
    axis.axvspan(-MARGIN, MARGIN, color=COLORS[6], alpha=0.12, lw=0)
    axis.axvline(0, color=COLORS[6], lw=0.8)
    axis.axhline(shown["reading"].eq(OWN).sum() - 0.5, color=COLORS[6], lw=0.8, ls=":")
    for place, row in enumerate(shown.to_dict("records")):
        mark = look(row["method"])
        ends = [row["difference_low"], row["difference_high"]]
        axis.plot(ends, [place, place], color=mark.color, lw=1.2)
        axis.plot(row["difference"], place, mark.marker, color=mark.color, ms=5.5)
    axis.set_yticks(range(len(shown)), shown["label"])
    axis.set_ylim(-0.7, max(len(shown), 1) - 0.3)
    low, high = min(LEVELS[EQUAL_ACCURACY]), max(LEVELS[EQUAL_ACCURACY])
    axis.set_xlabel(f"rare pass@64 from +{low} to +{high} points of pass@1: difference in points")
    title = f"Right of 0: keeps more than GRPO at its best rate ({task})"
    drawn.suptitle(f"{title}\nbelow: GRPO's own smaller rates, the positive control", fontsize=9)
    save(drawn, path, shown)
