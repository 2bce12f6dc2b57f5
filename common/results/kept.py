"""The finished runs of a declared study, as the repository keeps them.

    <folder>/problems.csv       the problems of each set, in the order in which counts stand
    <folder>/A-s10.csv.gz       part A with seed 10: a line for each evaluation of each run

A file is written once. What finishes later stands in A-s10-2.csv.gz, and so on. A line has the
number of right samples, and of distinct right answers, of every problem of one set.
"""

from functools import cache
from pathlib import Path

import pandas as pd

from common.errors import require
from common.results.columns import COLUMNS
from common.results.files import read_csv, write_csv

PROBLEMS = ["benchmark", "problem_id"]
# A run, the SHA-256 of the base model that it started from, and how long it took on what.
OF_RUN = ["run_id", "table", "model", "method", "seed", "base", "commit", "processor", "seconds"]
AT = ["step", "benchmark"]
LINE = [*OF_RUN, *AT, "n", "c", "distinct"]
COUNTED = ("pass@", "distinct_correct", "avg@", "best@")  # what begins metrics that counts give


def packed(counts: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of one run from its counts and its result rows: AT, n, c and distinct, and a
    column for each metric that the counts do not give."""
    counts = counts.sort_values([*AT, "problem_id"])
    of = counts.groupby(AT, sort=False)
    text = {name: of[name].agg(lambda x: " ".join(map(str, x))) for name in ("c", "distinct")}
    own = rows[~rows["metric"].str.startswith(COUNTED)]
    wide = own.pivot_table("value", AT, "metric", sort=False)
    lines = pd.DataFrame({"n": of["n"].first()} | text)
    return lines.join(wide, how="outer").reset_index()


def write_part(folder: Path, name: str, lines: pd.DataFrame, problems: pd.DataFrame) -> Path:
    """Write the lines of finished runs as the next file of a part and seed (`name`). Raises
    UserError where their `problems` differ from the kept ones."""
    file = folder / "problems.csv"
    if file.exists():
        same = read_csv(file, PROBLEMS).equals(problems)
        require(same, str(file), "problems", "differ from these runs'; keep one testbed a folder")
    else:
        write_csv(file, problems)
    number = len([*folder.glob(f"{name}.csv.gz"), *folder.glob(f"{name}-*.csv.gz")])
    path = folder / (f"{name}-{number + 1}.csv.gz" if number else f"{name}.csv.gz")
    lines_of.cache_clear()
    write_csv(path, lines[[*LINE, *(x for x in lines if x not in LINE)]])
    return path


def files(folder: Path, seed: int | str = "*") -> list[Path]:
    """Return the files of a seed, or of all, in the order in which each seed's were written."""
    found = {*folder.glob(f"*-s{seed}.csv.gz"), *folder.glob(f"*-s{seed}-*.csv.gz")}
    return sorted(found, key=lambda path: (len(path.name), path.name))


@cache
def lines_of(path: Path) -> pd.DataFrame:
    return read_csv(path, LINE)


def unpacked(home: Path, lines: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return result rows and the counts of every problem, as run folders have them, of kept `lines`
    of the testbed `home`."""
    metrics = [name for name in lines if name not in LINE]
    rows = lines.melt([*OF_RUN, *AT], metrics, var_name="metric").dropna(subset=["value"])
    names = read_csv(home / "problems.csv", PROBLEMS).groupby("benchmark")["problem_id"].agg(list)
    counts = lines.dropna(subset=["c"]).drop(columns=metrics)
    split = {name: counts[name].str.split() for name in ("c", "distinct")}
    counts = counts.assign(**split, problem_id=counts["benchmark"].map(names))
    counts = counts.explode(["problem_id", *split], ignore_index=True)
    return rows.reindex(columns=COLUMNS), counts.astype({"n": int, "c": int, "distinct": int})
