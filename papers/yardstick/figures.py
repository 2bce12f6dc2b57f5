"""The tables and the figure of each testbed: `rlvr figures paper=yardstick [results_dir=...]`.

<results_dir>/<testbed>/metrics.csv.gz, counts.csv.gz    from the finished runs in the same folder
<results_dir>/<testbed>/ranking.csv, against_base.csv, controls.csv
<results_dir>/<testbed>/figures/areas.{png,pdf}
"""

from pathlib import Path

import pandas as pd

from common.comparison.gather import gather
from common.palette import look
from common.plotting import COLORS, panels, save
from common.results.files import read_csv, write_csv
from common.results.stored import with_stored
from papers.yardstick.areas import rank
from papers.yardstick.controls import controls
from papers.yardstick.curves import OF_SAMPLES, Curve, curves
from papers.yardstick.last import against_base
from papers.yardstick.protocol import (
    BASE,
    BEST,
    EQUAL_ACCURACY,
    GRPO,
    LEVELS,
    MARGIN,
    OWN,
    PRIMARY,
    RATES,
    TESTBEDS,
)

FILES = ("metrics.csv.gz", "counts.csv.gz")
RELIABLE = 0.5  # split-half reliability below which nothing is ranked
COUNTS = ["run_id", "step", "benchmark", "problem_id", "n", "c", "distinct"]


def draw(root: Path) -> None:
    """Make everything that the results below `root` allow."""
    for name, task in TESTBEDS.items():
        store(root, name)
        if (root / name / FILES[0]).exists():
            show(root / name, task)


def store(root: Path, name: str) -> None:
    """Write the rows and counts of the finished runs of a testbed. Stored runs whose folders are
    missing stay in the tables. Without any finished run nothing is written."""
    folder = root / name
    for one in gather(root, name).scopes.values():  # there is one
        rows = one.rows[one.rows["metric"].isin(OF_SAMPLES)]
        for file, table in zip(FILES, (rows, one.counts[COUNTS]), strict=True):
            before = read_csv(folder / file, []) if (folder / file).exists() else table
            ids = [*dict.fromkeys([*before["run_id"], *table["run_id"]])]
            write_csv(folder / file, with_stored(table, folder / file, folder, ids))


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, list[Curve]]:
    """Return the stored rows and counts of the rates that are compared, and the runs' frontiers."""
    rows, counts = (read_csv(folder / file, []) for file in FILES)
    rows = rows[rows["table"].isin((BASE, *RATES))]
    counts = counts[counts["run_id"].isin(rows["run_id"])]
    at_last = counts["step"] == counts.groupby("run_id")["step"].transform("max")
    # the last evaluation draws more samples, so that it is no point of the frontier
    return rows, counts, curves(rows, counts[~at_last | (counts["step"] == 0)])


def show(folder: Path, task: str) -> None:
    rows, counts, drawn = read(folder)
    tables = {
        "ranking": rank(drawn),
        "against_base": against_base(rows, counts),
        "controls": controls(drawn),
    }
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    figure(task, tables["ranking"], folder / "figures" / "areas")


def rows_of(
    ranking: pd.DataFrame,
    reading: str,
    equal: str = EQUAL_ACCURACY,
    measure: tuple[str, str] = PRIMARY,
) -> pd.DataFrame:
    """Return the rows of a ranking for one reading and measure, the default being the test's
    measure."""
    same = (ranking["benchmark"] == measure[0]) & (ranking["metric"] == measure[1])
    return ranking[same & (ranking["reading"] == reading) & (ranking["equal"] == equal)]


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
