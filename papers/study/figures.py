"""The tables and figures of each testbed: `rlvr figures paper=study [results_dir=...]`.

<results_dir>/<testbed>/laptop/                  rows and counts of the finished runs
<results_dir>/<testbed>/{controls,methods}.csv
<results_dir>/<testbed>/figures/keeps.png
<results_dir>/confirmatory/hypotheses.csv         once the kept runs of nine seeds are whole, with
                                                 the tables and the figure of these
"""

from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison.confirmed import PARTS, hypotheses, read
from common.comparison.frontier import ACCURACY, BASE, DIVERSITY, GRPO, LEVELS, RATE, curves
from common.comparison.gather import LAPTOP, gather, gathered
from common.config.files import STUDY
from common.config.rows import rows
from common.palette import GREY, look
from common.plotting import panels, save
from common.results.files import write_csv
from common.results.kept import files, unpacked
from common.sweeps.declared import kept_counts
from common.sweeps.plan import experiments, scales_of
from papers.study.tables import (
    CONFIRMATORY,
    EQUAL,
    LAST,
    MORE,
    MORE_EQUAL,
    RunsByMethod,
    controls,
    early,
    methods,
)

TESTBEDS = {"study": "Subset-Countdown", "study_maze": "mazes with loops"}
OWN = {"confirmatory": "Subset-Countdown, 240 problems a set"}  # and runs of scale=own
DECLARED = OWN | {"confirmatory_maze": "mazes with loops, 240 problems a set"}


def draw(root: Path) -> None:
    """Make everything that the results below `root` allow."""
    for name, task in (TESTBEDS | OWN).items():
        table = tabulate(root, name, root)
        if table is not None:
            keeps(task, table, root / name / "figures" / "keeps")
    if files(root / "confirmatory"):
        judged = hypotheses(root)
        print("; ".join([judged.said, *judged.left_out]))
        if len(judged.verdicts):
            write_csv(root / "confirmatory" / "hypotheses.csv", judged.verdicts)
        for home, lines in read(root, PARTS)[0].items():
            found = curves(unpacked(home, lines)[1])
            whole = _as_long_as_grpo(found)
            table = methods(whole, MORE, MORE_EQUAL)
            write_csv(home / "controls.csv", controls(found, CONFIRMATORY))
            write_csv(home / "methods.csv", pd.concat([table, early(whole)]))
            keeps(DECLARED[home.name], table, home / "figures" / "keeps")


def tabulate(results: Path, name: str, root: Path) -> pd.DataFrame | None:
    """Write the rows, counts and tables of the testbed's finished runs below `results` to
    <root>/<name>/ and return the table `methods`; None where no run is finished. Without the run
    folders the tables are made from the rows and counts that are there. Methods of a user's own are
    compared with kept runs of GRPO too."""
    gathering = gather(results, name)
    gathering.write(root, name)
    one, _ = gathered(root, name, LAPTOP, gathering if gathering.scopes else None)
    if not len(one.rows):
        return None
    counts = one.counts
    if name in OWN:
        own = experiments(scales_of("study", "scale=own", f"results_dir={root}"))
        # of the declared rows nothing is shown before nine seeds are whole
        declared = {row["label"] for row in rows(STUDY).values()} - {GRPO, BASE}
        counts = pd.concat([counts[~counts["method"].isin(declared)], kept_counts(own)])
    found = curves(counts)
    table = methods(found)
    write_csv(root / name / "controls.csv", controls(found))
    write_csv(root / name / "methods.csv", table)
    return table


def _as_long_as_grpo(found: RunsByMethod) -> RunsByMethod:
    """Leave out rows at the study's rate that train for fewer steps than GRPO there."""
    grpo = {seed: run.steps[-1] for seed, run in found[RATE, GRPO].items()}
    return {
        key: of
        for key, of in found.items()
        if key[0] != RATE or all(run.steps[-1] >= grpo.get(seed, 0) for seed, run in of.items())
    }


def keeps(task: str, table: pd.DataFrame, path: Path) -> None:
    """Draw what each method at the study's rate keeps of rare pass@64 at equal pass@1 beyond GRPO
    at this rate, against its pass@1 beyond it after the last step, with 95 % intervals. A label
    has the last level that was read where it is not the highest."""
    known = table[(table["rate"] == RATE) & (table["against"] == f"{GRPO} {RATE}")]
    places = known.set_index(["reading", "benchmark", "metric", "method"]).sort_index()
    ends = ["difference", "low", "high"]
    sides = [
        places.loc[reading, *measure][columns].add_prefix(f"{name}_")
        for name, reading, measure, columns in (
            ("pass1", LAST, ACCURACY, ends),
            ("kept", EQUAL, DIVERSITY, [*ends, "levels"]),
        )
    ]
    shown = pd.concat(sides, axis=1).dropna(subset=["kept_difference"]).reset_index()
    figure, axes = panels(1, width=6.4, height=4.6)
    axis = axes[0, 0]
    axis.axhline(0, color=GREY, lw=0.8)
    axis.axvline(0, color=GREY, lw=0.8)
    bottom = np.nanmin([0, *shown["kept_low"]]) - 1
    top = np.nanmax([0, *shown["kept_high"]]) + 1
    axis.set_ylim(bottom, top)
    above, step = 1.0, min(0.05, 1 / max(len(shown), 1))
    highest_first = shown.sort_values("kept_difference", ascending=False, kind="stable")
    for below, row in zip(range(len(shown))[::-1], highest_first.to_dict("records"), strict=True):
        x, y, one = row["pass1_difference"], row["kept_difference"], look(row["method"])
        axis.plot([x, x], [row["kept_low"], row["kept_high"]], color=one.color, lw=1)
        axis.plot(x, y, one.marker, color=one.color, ms=6)
        line = {"arrowstyle": "-", "color": one.color, "lw": 0.5, "alpha": 0.6}
        # as high as the point if the other labels have room
        above = max(min((y - bottom) / (top - bottom), above - step), below * step)
        last = row["kept_levels"].split()[-1]
        short = "" if last == f"+{LEVELS[-1]}" else f" (to {last})"
        axis.annotate(  # in a column on the right of the panel, with a line to the point
            row["method"] + short,
            (x, y),
            (1.02, above),
            textcoords="axes fraction",
            arrowprops=line | {"relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 0},
            color=one.color,
            va="center",
            fontsize=8,
        )
    axis.set_xlabel("pass@1 after the last step (points; left of 0: costs accuracy)")
    axis.set_ylabel("rare pass@64 at equal pass@1 (points; above 0: keeps more)")
    axis.set_title(f"Each method minus GRPO at the same rate ({task})", fontsize=9)
    save(figure, path, shown)
