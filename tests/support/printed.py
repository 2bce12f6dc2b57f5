"""The papers' printed tables, a row a dictionary of texts."""

import csv

from tiny import ROOT


def printed(paper: str, table: str) -> list[dict[str, str]]:
    file = ROOT / "papers" / paper / "published" / f"{table}.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def hyperparameters(paper: str, scope: str) -> dict[str, str]:
    rows = printed(paper, "hyperparameters")
    return {row["parameter"]: row["value"] for row in rows if row["scope"] == scope}
