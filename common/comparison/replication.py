"""Whether a user's own laptop rows replicate the committed ones.

For each row and metric this is the difference of the two means over the seeds that both sides have,
or over all seeds where they share none, with its 95 % interval: problems are fixed, seeds are
random, and equal seeds are paired. About one in twenty rows differs by chance.
"""

from __future__ import annotations

import filecmp
from pathlib import Path

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.comparison.gather import LAPTOP
from common.comparison.spec import Spec
from common.metrics.paired import Interval, two_way_interval
from common.results.files import read_csv

ROW = ["table", "model", "method", "benchmark", "metric", "step"]
DRAWN = ["n_problems", "n_samples"]  # what the noise of a value depends on
SIDES = ["n_stored", "n_own", "stored", "own"]
COLUMNS = [*ROW, "unit", *SIDES, "difference", "low", "high", "p", "verdict"]
MARKS = {"replicates": "", "differs": "≠", "too few seeds": "?"}
LEGEND = "≠ differs from what is stored; ? too few seeds; else it replicates (95 % interval)"


def difference(stored: pd.Series, own: pd.Series) -> Interval | None:
    """Return the interval of own - stored, both by seed; None with too few seeds."""
    parts = [own - stored] if own.index.equals(stored.index) else [own, -stored]
    if min(map(len, parts)) < MIN_SEEDS:
        return None
    return two_way_interval(*(part.to_numpy(float)[:, None] for part in parts))


def verdict(gap: Interval | None) -> str:
    if gap is None:
        return "too few seeds"
    return "replicates" if gap.p() >= 0.05 else "differs"


def replication(spec: Spec, root: Path, own: pd.DataFrame, reference: Path) -> pd.DataFrame:
    """Return COLUMNS for every laptop row and metric that the paper's tables show and that both
    sides have at the same last step, with as many problems and samples. own: the gathered laptop
    rows of `root`; the committed rows are read from `reference`. The result is empty where `root`
    holds the committed rows themselves, as a copy of that folder does."""
    path, ours = (folder / spec.paper / LAPTOP / "metrics.csv.gz" for folder in (reference, root))
    if own.empty or not path.exists() or (ours.exists() and filecmp.cmp(path, ours, shallow=False)):
        return pd.DataFrame(columns=COLUMNS)
    theirs = _last(spec, read_csv(path))
    mine = _last(spec, own).merge(theirs[[*ROW, *DRAWN]].drop_duplicates(), on=[*ROW, *DRAWN])
    parts, rows = dict(iter(theirs.groupby(ROW))), []
    for key, part in mine.groupby(ROW):
        sides = [x.groupby("seed")["value"].mean() for x in (parts[key], part)]
        shared = sides[0].index.intersection(sides[1].index)
        sides = [side.loc[shared] if len(shared) else side for side in sides]
        gap = difference(*sides)
        shown = [np.nan] * 3 if gap is None else [*gap.bounds(), gap.p()]
        means = [sides[0].mean(), sides[1].mean(), sides[1].mean() - sides[0].mean()]
        unit = part["unit"].iloc[0]
        rows.append([*key, unit, *map(len, sides), *means, *shown, verdict(gap)])
    return pd.DataFrame(rows, columns=COLUMNS)


def _last(spec: Spec, rows: pd.DataFrame) -> pd.DataFrame:
    shown = pd.MultiIndex.from_tuples(spec.laptop.values())
    last = rows["step"] == rows.groupby("run_id")["step"].transform("max")
    return rows[last & pd.MultiIndex.from_frame(rows[["benchmark", "metric"]]).isin(shown)]
