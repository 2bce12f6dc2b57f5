"""What a paper printed: the cells of papers/<paper>/published/table*.csv."""

from pathlib import Path

import pandas as pd

from common.config.files import names
from common.config.rows import rows
from common.results.checks import check_rows


def published(folder: Path) -> pd.DataFrame:
    """All printed cells of a paper: the rows of `published/table*.csv`; `printed` is the value as
    it is written there."""
    return published_checked(folder)[0]


def published_checked(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """The printed cells, and what was left out of them."""
    frames, problems = [], []
    for path in sorted(folder.glob("table*.csv")):
        as_text = pd.read_csv(path, usecols=["value"], dtype=str)["value"]
        frame, more = check_rows(pd.read_csv(path).assign(printed=as_text), str(path))
        frames.append(frame)
        problems += more
    return pd.concat(frames, ignore_index=True), problems


def own_names(home: Path) -> set[str]:
    """Names that our own runs have: benchmarks of configs/eval, labels of the rows."""
    return labels(home) | set(names("eval"))


def labels(home: Path) -> set[str]:
    """The methods of the rows, as tables show them."""
    return {row["label"] for row in rows(home.name).values()}
