"""The printed cells of a paper: papers/<paper>/published/table*.csv."""

from pathlib import Path

import pandas as pd

from common.config.files import names
from common.config.rows import rows
from common.results.checks import check_rows


def published(folder: Path) -> pd.DataFrame:
    """Return all printed cells of a paper: the rows of table*.csv in `folder`. The column `printed`
    is the value as it is written there."""
    return published_checked(folder)[0]


def published_checked(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return (the printed cells, messages on what was left out of them)."""
    frames, problems = [], []
    for path in sorted(folder.glob("table*.csv")):
        as_text = pd.read_csv(path, usecols=["value"], dtype=str)["value"]
        frame, more = check_rows(pd.read_csv(path).assign(printed=as_text), str(path))
        frames.append(frame)
        problems += more
    return pd.concat(frames, ignore_index=True), problems


def own_names(home: Path) -> set[str]:
    """Return the names that our own runs have: benchmarks of configs/eval and labels of the rows
    (named experiment configurations)."""
    return labels(home) | set(names("eval"))


def labels(home: Path) -> set[str]:
    """Return the methods of the rows, as tables show them."""
    return {row["label"] for row in rows(home.name).values()}
