"""The verdicts on claims as markdown and for a terminal."""

import pandas as pd

from common.claims.file import SCOPES
from common.claims.single import ONE_RUN
from common.results.provenance import GREY
from common.results.tables import markdown

WORDS = ("holds", "fails", "inconclusive", ONE_RUN)
WORDS += ("not run", "mechanism not engaged", "not claimed here")


def to_markdown(verdicts: pd.DataFrame) -> str:
    scopes = in_use(verdicts)
    rows = [
        [row["claim"], row["source"], *(": ".join(_words(row, scope)) for scope in scopes)]
        for row in verdicts.to_dict("records")
    ]
    return markdown(["claim", "source", *scopes], rows)


def counts(verdicts: pd.DataFrame) -> list[str]:
    """Return a line for each scale: how many claims have which verdict."""
    lines = []
    for scope in in_use(verdicts):
        found = verdicts[scope].value_counts()
        known = ", ".join(f"{found[word]} {word}" for word in WORDS if word in found)
        lines.append(f"claims, {scope}: {known}")
    return lines


def difference(row: pd.Series | dict, word: str = "") -> str:
    """Return a row of gaps.csv with its interval, and corrected p if that alone leaves it open."""
    digits = 1 if str(row["metric"]).startswith("pass@") else 3
    low, high = row["low"], row["high"]
    if pd.isna(low):
        return "identical" if row["difference"] == 0 else "too few seeds"
    text = f"{row['difference']:+z.{digits}f} [{low:z.{digits}f}, {high:z.{digits}f}]"
    p = row["p_holm"]
    open_ = word == "inconclusive" and low * high > 0 and not pd.isna(p)
    return text + (f", corrected p {p:.2g}" if open_ else "")


def in_use(verdicts: pd.DataFrame) -> list[str]:
    """Return the scopes that some claim has a predicate for."""
    return [scope for scope in SCOPES if (verdicts[f"{scope}_numbers"] != "").any()]


def _words(row: dict, scope: str) -> list[str]:
    numbers, state = row[f"{scope}_numbers"], row.get(f"{scope}_state")
    if state in GREY:
        numbers += f" (files of its runs are {state})"
    return [row[scope], numbers] if numbers else ["–"]
