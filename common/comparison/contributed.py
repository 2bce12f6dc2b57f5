"""Contributed results (results/contributed/), beside the committed rows.

A table row is the mean of one metric over a contribution's seeds. common/comparison/replication.py
decides whether it replicates.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from common.comparison import layout, replication
from common.comparison.gather import LAPTOP
from common.config.files import ROOT
from common.errors import UserError
from common.results.files import read_csv, sha256
from common.results.tables import markdown as to_markdown

DEFAULT = Path("results") / "contributed"
COMMITTED = ROOT / DEFAULT
ABOUT = "contribution.json"
WHO = ["paper", "row", "name", "hardware", "hours", "commit"]
COLUMNS = [*WHO, *replication.COLUMNS, "names", "lowest", "highest"]
HEAD = ["paper", "row", "who, on what", "metric", "ours", "theirs", "difference [95 %]", "verdict"]
HEAD += ["all contributions"]


def compared(home: Path, reference: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return (COLUMNS of the contributions below `home` after their last step, for pass@1 and the
    pass@k of the largest k; what was left out and why).

    stored, difference and p compare with the committed laptop rows in `reference` and are missing
    where there are none. names, lowest and highest describe all contributions of the row: how many
    there are, and the range of their means.
    """
    frames, left_out = [], []
    for file in sorted(home.glob(f"*/*/*/{ABOUT}")):
        try:
            frames.append(_one(file.parent, reference))
        except (OSError, ValueError, LookupError, UserError) as error:
            left_out.append(f"{file.parent}: {error}; this contribution is left out")
    if not frames:
        return pd.DataFrame(columns=COLUMNS), left_out
    found = pd.concat(frames, ignore_index=True)
    same = found.groupby(["paper", "row", "table", "benchmark", "metric"])["own"]
    spread = {"names": same.transform("size"), "lowest": same.transform("min")}
    return found.assign(**spread, highest=same.transform("max"))[COLUMNS], left_out


def _one(folder: Path, reference: Path) -> pd.DataFrame:
    """Return a contribution's rows. Raises UserError where a file has changed since it was
    checked."""
    about = json.loads((folder / ABOUT).read_text())
    for name, digest in about["files"].items():
        if sha256((folder / name).read_bytes()) != digest:
            raise UserError(f"{name} was changed since it was checked")
    rows = read_csv(folder / "metrics.csv")
    rows = _shown(rows.assign(base=rows["run_id"].map(about["bases"])))
    path = reference / about["paper"] / LAPTOP / "metrics.csv.gz"
    stored = rows[:0]
    if about["scope"] == LAPTOP and path.exists():
        stored = replication.committed(read_csv(path))
    found = replication.compared(stored, rows)
    commit = ", ".join(one[:9] for one in about["commits"])
    who = {name: about[name] for name in WHO[:-1]}
    return found.assign(**who, commit=commit + " (changed)" * about["changed_code"])


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return pass@1 and the pass@k of the largest k on each benchmark, after the last step."""
    passed = rows[rows["metric"].str.match("pass@") & (rows["step"] == rows["step"].max())]
    largest = passed.groupby("benchmark")["k"].transform("max")
    return passed[(passed["k"] == 1) | (passed["k"] == largest)]


def markdown(found: pd.DataFrame) -> str:
    """Return `lines` as a markdown table; "" without contributions."""
    shown = lines(found)
    return to_markdown(HEAD, shown) if shown else ""


def lines(found: pd.DataFrame) -> list[list[str]]:
    """Return the columns HEAD of each row and metric, as text."""
    shown = []
    for row in layout.objects(found):
        ours, theirs = (
            f"{row[side]:.1f} ({row[f'n_{side}']} seeds)" if row[f"n_{side}"] else "not run"
            for side in ("stored", "own")
        )
        gap = layout.rounded(row["difference"], 1, "+")
        if row["low"] != "":
            gap += f" [{row['low']:.1f}, {row['high']:.1f}], p = {row['p']:.2g}"
        said = f"{row['name']}, {row['hardware']}, {row['hours']:.3g} h, {row['commit']}"
        among = f"{row['names']}: {row['lowest']:.1f} to {row['highest']:.1f}"
        named = [row["paper"], f"{row['table']}: {row['method']}", said]
        named.append(f"{row['benchmark']} {row['metric']}")
        among = among if row["names"] > 1 else ""
        shown.append([*named, ours, theirs, gap, row["verdict"], among])
    return shown
