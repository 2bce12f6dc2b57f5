"""The tables, page and figure of each testbed: `rlvr figures paper=yardstick [results_dir=...]`.

<results_dir>/<testbed>/metrics.csv.gz, counts.csv.gz    from the finished runs in the same folder
<results_dir>/<testbed>/ranking.csv, against_base.csv, controls.csv, yardstick.md
<results_dir>/<testbed>/figures/areas.{png,pdf}
"""

from pathlib import Path

import pandas as pd

from common.comparison.gather import gather
from common.results.files import read_csv, write, write_csv
from common.results.stored import with_stored
from papers.yardstick import page
from papers.yardstick.areas import rank
from papers.yardstick.controls import controls
from papers.yardstick.curves import OF_SAMPLES, Curve, curves
from papers.yardstick.last import against_base
from papers.yardstick.protocol import BASE, RATES, TESTBEDS

FILES = ("metrics.csv.gz", "counts.csv.gz")
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
    write(folder / "yardstick.md", page.markdown(task, *tables.values()))
    page.figure(task, tables["ranking"], folder / "figures" / "areas")
