"""The tables and figures of each testbed: `rlvr figures paper=study [results_dir=...]`.

<results_dir>/<testbed>/laptop/                  rows and counts of the finished runs
<results_dir>/<testbed>/{controls,methods}.csv
<results_dir>/<testbed>/figures/{keeps,overview}.png
"""

from pathlib import Path

import pandas as pd

from common.comparison.frontier import ACCURACY, BASE, DIVERSITY, GRPO, LOWER, RATE, curves
from common.comparison.gather import LAPTOP, gather, gathered
from common.palette import GREY, look
from common.plotting import panels, save
from common.results.files import write_csv
from papers.study.tables import EQUAL, LAST, controls, methods, speed

TESTBEDS = {"study": "Subset-Countdown", "study_maze": "mazes with loops"}
# against GRPO at the method's rate and one rate lower: the marks of the figure `keeps`
SIDES = {f"{GRPO} {RATE}": ("o", "at its rate"), f"{GRPO} {LOWER}": ("D", "one rate lower")}


def draw(root: Path) -> None:
    """Make everything that the results below `root` allow."""
    for name, task in TESTBEDS.items():
        table = tabulate(root, name, root)
        if table is not None:
            keeps(task, table, root / name / "figures" / "keeps")
            overview(task, table, root / name / "figures" / "overview")


def tabulate(results: Path, name: str, root: Path) -> pd.DataFrame | None:
    """Write the rows, counts and tables of the testbed's finished runs below `results` to
    <root>/<name>/ and return the table `methods`; None where no run is finished. Without the run
    folders the tables are made from the rows and counts that are there."""
    gathering = gather(results, name)
    gathering.write(root, name)
    one, _ = gathered(root, name, LAPTOP, gathering if gathering.scopes else None)
    if not len(one.rows):
        return None
    found = curves(one.counts)
    table = methods(found)
    write_csv(root / name / "controls.csv", controls(found))
    write_csv(root / name / "methods.csv", table)
    return table


def keeps(task: str, table: pd.DataFrame, path: Path) -> None:
    """Draw what each method keeps of rare pass@64 at equal pass@1 beyond GRPO at its rate (filled)
    and beyond GRPO one rate lower (hollow), with 95 % intervals."""
    shown = table[(table["reading"] == EQUAL) & table["against"].isin(SIDES)]
    shown = shown[(shown["rate"] == RATE)].dropna(subset=["difference"])
    order = shown[shown["against"] == f"{GRPO} {RATE}"].sort_values("difference")["method"]
    places = {method: place for place, method in enumerate(order)}
    drawn, axes = panels(1, width=6.4, height=1.1 + 0.26 * max(len(places), 4))
    axis = axes[0, 0]
    axis.axvline(0, color=GREY, lw=0.8)
    for row in shown[shown["method"].isin(places)].to_dict("records"):
        marker, _ = SIDES[row["against"]]
        color = look(row["method"]).color
        y = places[row["method"]] + (0.14 if marker == "o" else -0.14)
        axis.plot([row["low"], row["high"]], [y, y], color=color, lw=1.2)
        axis.plot(
            row["difference"], y, marker, color=color, ms=5, mfc=color if marker == "o" else "w"
        )
    for marker, says in SIDES.values():
        axis.plot([], [], marker, color=GREY, mfc=GREY if marker == "o" else "w", label=says)
    axis.legend(title="beyond GRPO", loc="lower right", fontsize=8, title_fontsize=8)
    axis.set_yticks(list(places.values()), list(places))
    axis.set_xlabel("rare pass@64 at equal pass@1: difference in points")
    axis.set_title(f"Right of 0: keeps more than GRPO ({task})", fontsize=9)
    save(drawn, path, shown)


def overview(task: str, table: pd.DataFrame, path: Path) -> None:
    """Draw diversity lost against accuracy gained over the base model, after the last step: GRPO at
    each of its learning rates as a line, and each method at the study's rate."""
    shown = table[(table["reading"] == LAST) & (table["against"] == BASE)]
    wide = shown.pivot_table("difference", ["rate", "method"], ["benchmark", "metric"])
    if not {ACCURACY, DIVERSITY} <= set(wide):
        return
    figure, axes = panels(1, width=6.4, height=4.2)
    axis, labels, line = axes[0, 0], [(0.0, 0.0, "base model", GREY)], []
    axis.plot(0, 0, "s", color=GREY, ms=6)
    for (rate, method), row in wide.iterrows():
        x, y, color = row[ACCURACY], row[DIVERSITY], look(method).color
        if method == GRPO:
            line.append((speed(rate), x, y))
            labels.append((x, y, f"GRPO, {rate}", "black"))
        else:
            axis.plot(x, y, look(method).marker, color=color, ms=6)
            labels.append((x, y, method, color))
    _, xs, ys = zip(*sorted(line), strict=True)
    axis.plot(xs, ys, "o-", color="black", mfc="white", ms=5, lw=1)
    column = max(x for x, *_ in labels) + 1.5  # the labels stand in it, with a line to their dots
    highest = max(y for _, y, *_ in labels)
    gap = (highest - min(y for _, y, *_ in labels)) / max(len(labels) - 1, 1)
    for place, (x, y, text, color) in enumerate(sorted(labels, key=lambda label: -label[1])):
        at = highest - place * gap
        axis.plot([x, column], [y, at], color=color, lw=0.4, alpha=0.6)
        axis.annotate(text, (column + 0.1, at), color=color, va="center", fontsize=7)
    axis.set_xlim(right=column + 6)
    axis.set(xlabel="pass@1 gained over the base model (points)", ylabel="rare pass@64 (points)")
    axis.set_title(f"After the last step, minus the own base models ({task})", fontsize=9)
    save(figure, path, shown)
