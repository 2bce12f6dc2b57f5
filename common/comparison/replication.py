"""Whether a user's own laptop rows replicate the committed ones.

For each row and metric this is the difference of the two means, with the 95 % interval that two
runs of the same thing would give: problems are fixed, seeds are random, with one spread on both
sides. Base models that both sides share are compared one by one. If they share none, the mean of a
base model is one observation. If a side does not state its base models, seeds count as independent.
About one in twenty rows differs by chance.
"""

from __future__ import annotations

import filecmp
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from common.comparison.gather import LAPTOP
from common.comparison.spec import Spec
from common.metrics.bases import base_seed
from common.metrics.paired import Interval
from common.results.files import read_csv

ROW = ["table", "model", "method", "benchmark", "metric", "step"]
DRAWN = ["n_problems", "n_samples"]  # what the noise of a value depends on
SIDES = ["n_stored", "n_own", "stored", "own"]
COLUMNS = [*ROW, "unit", *SIDES, "difference", "low", "high", "p", "verdict"]
LEAST = 2  # degrees of freedom
MARKS = {"replicates": "", "differs": "≠", "too few seeds": "?"}
LEGEND = "≠ differs from what is stored; ? too few seeds; else it replicates (95 % interval)"


def difference(
    stored: Sequence[float],
    own: Sequence[float],
    stored_bases: Sequence[object] | None = None,
    own_bases: Sequence[object] | None = None,
) -> Interval | None:
    """Return the interval of own - stored from two sets of seeds; None with fewer than LEAST
    degrees of freedom."""
    sides = [np.asarray(stored, dtype=float), np.asarray(own, dtype=float)]
    if stored_bases is None or own_bases is None:
        groups = [{"": side} for side in sides]
    else:
        groups = [_by_base(*side) for side in zip(sides, (stored_bases, own_bases), strict=True)]
    shared = [base for base in groups[0] if base in groups[1]]
    if not shared:
        groups = [{"": np.array([x.mean() for x in side.values()])} for side in groups]
        shared = [""]
    cells = [x for side in groups for x in side.values()]
    df = sum(map(len, cells)) - len(cells)
    if df < LEAST:
        return None
    variance = sum(((x - x.mean()) ** 2).sum() for x in cells) / df
    sizes = np.array([[len(side[base]) for base in shared] for side in groups])
    weights = sizes.prod(axis=0) / sizes.sum(axis=0)  # 1 / (1/n + 1/m)
    gaps = np.array([groups[1][base].mean() - groups[0][base].mean() for base in shared])
    value = float(weights @ gaps / weights.sum())
    return Interval(value, float(np.sqrt(variance / weights.sum())), df)


def _by_base(values: np.ndarray, bases: Sequence[object]) -> dict[str, np.ndarray]:
    names = np.array([str(base) for base in bases])
    return {base: values[names == base] for base in dict.fromkeys(names)}


def verdict(gap: Interval | None) -> str:
    if gap is None:
        return "too few seeds"
    return "replicates" if gap.p() >= 0.05 else "differs"


def replication(spec: Spec, root: Path, own: pd.DataFrame, reference: Path) -> pd.DataFrame:
    """Return COLUMNS for every laptop row and metric that the paper's tables show and that both
    sides have at the same last step, with as many problems and samples. own: the gathered laptop
    rows of `root`; the committed rows are read from `reference`, and their seed numbers say which
    base model a run started from (docs/evidence.md). The result is empty where `root` holds the
    committed rows themselves, as a copy of that folder does."""
    path, ours = (folder / spec.paper / LAPTOP / "metrics.csv.gz" for folder in (reference, root))
    if own.empty or not path.exists() or (ours.exists() and filecmp.cmp(path, ours, shallow=False)):
        return pd.DataFrame(columns=COLUMNS)
    theirs = _last(spec, read_csv(path))
    theirs = theirs.assign(base=[str(base_seed(int(seed))) for seed in theirs["seed"]])
    mine = _last(spec, own).merge(theirs[[*ROW, *DRAWN]].drop_duplicates(), on=[*ROW, *DRAWN])
    mine = mine.assign(base=_stated_bases(root, spec.paper, mine))
    parts, rows = dict(iter(theirs.groupby(ROW))), []
    for key, part in mine.groupby(ROW):
        both = [parts[key], part]
        bases = [None if side["base"].isna().any() else list(side["base"]) for side in both]
        values = [side["value"] for side in both]
        gap = difference(*values, *bases)
        means = [side.mean() for side in values]
        shown = [means[1] - means[0], np.nan, np.nan, np.nan]
        if gap is not None:
            shown = [gap.value, *gap.bounds(), gap.p()]
        unit = part["unit"].iloc[0]
        rows.append([*key, unit, *map(len, both), *means, *shown, verdict(gap)])
    return pd.DataFrame(rows, columns=COLUMNS)


def _last(spec: Spec, rows: pd.DataFrame) -> pd.DataFrame:
    shown = pd.MultiIndex.from_tuples(spec.laptop.values())
    last = rows["step"] == rows.groupby("run_id")["step"].transform("max")
    return rows[last & pd.MultiIndex.from_frame(rows[["benchmark", "metric"]]).isin(shown)]


def _stated_bases(root: Path, paper: str, rows: pd.DataFrame) -> list[str | None]:
    """Return for each row the seed that its run's base model was pretrained with, as the run's
    configuration says; None where the folder is not there or the configuration has no such seed."""
    known: dict[str, str | None] = {}
    for run in rows["run_id"].unique():
        path = root / paper / str(run) / "config.yaml"
        model = yaml.safe_load(path.read_text()).get("model", {}) if path.exists() else {}
        seed = (model.get("pretrain") or {}).get("seed")
        known[run] = None if seed is None else str(seed)
    return [known[run] for run in rows["run_id"]]
