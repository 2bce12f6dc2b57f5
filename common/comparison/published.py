"""What a paper printed: the cells of papers/<paper>/published/table*.csv."""

import re
from pathlib import Path

import pandas as pd

from common.config.compose import ROOT
from common.results.checks import check_rows


def published(folder: Path) -> pd.DataFrame:
    """All printed cells of a paper: the rows of `published/table*.csv`; `printed` is the value as
    it is written there."""
    return published_checked(folder)[0]


def published_checked(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """The printed cells, and what of them was left out."""
    frames, problems = [], []
    for path in sorted(folder.glob("table*.csv")):
        as_text = pd.read_csv(path, usecols=["value"], dtype=str)["value"]
        frame, found = check_rows(pd.read_csv(path).assign(printed=as_text), str(path))
        frames.append(frame)
        problems += found
    return pd.concat(frames, ignore_index=True), problems


def own_names(home: Path) -> set[str]:
    """Names that our own runs have: benchmarks of configs/eval, labels of the experiments."""
    files = (home / "configs" / "experiment").rglob("*.yaml")
    labels = [re.search(r"^label: *(.*?) *(?:#.*)?$", file.read_text(), re.M) for file in files]
    benchmarks = {file.stem for file in (ROOT / "configs" / "eval").glob("*.yaml")}
    return benchmarks | {found[1].strip("\"'") for found in labels if found}
