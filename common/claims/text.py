"""The verdicts on claims as markdown and for a terminal."""

import pandas as pd

from common.claims.file import SCOPES
from common.claims.single import ONE_RUN
from common.results.provenance import GREY
from common.results.tables import markdown

WORDS = ("holds", "fails", "inconclusive", ONE_RUN)
WORDS += ("not run", "mechanism not engaged", "not claimed here")


def to_markdown(verdicts: pd.DataFrame) -> str:
    """Return the table of `verdicts` as markdown, with the numbers behind each verdict."""
    scopes = in_use(verdicts)
    rows = [
        [row["claim"], row["source"], *(": ".join(_words(row, scope)) for scope in scopes)]
        for row in verdicts.to_dict("records")
    ]
    return markdown(["claim", "source", *scopes], rows)


def to_terminal(verdicts: pd.DataFrame, gaps: pd.DataFrame) -> str:
    """Return what a terminal shows: the claims that a rerun decided, with their numbers and what
    these measure (from `gaps`), then how many claims have which verdict at each scale."""
    lines, scopes = [], in_use(verdicts)
    for scope in (name for name in scopes if name != "published"):
        for row in verdicts[verdicts[scope].isin(["holds", "fails"])].to_dict("records"):
            numbers = _measured(gaps, row["id"], scope) + _words(row, scope)[1]
            lines.append(f"{row[scope]} ({scope}) {row['claim']} [{row['source']}]\n    {numbers}")
    if lines:
        lines.insert(0, "What a rerun decided, with the place in the paper and numbers")
    for scope in scopes:
        counts = verdicts[scope].value_counts()
        known = ", ".join(f"{counts[word]} {word}" for word in WORDS if word in counts)
        lines.append(f"claims, {scope}: {known}")
    return "\n".join(lines)


def _measured(gaps: pd.DataFrame, claim: str, scope: str) -> str:
    """Return the benchmark, metric and unit of a claim's numbers; "" where `gaps` has no comparison
    of it."""
    of = gaps[(gaps["claim"] == claim) & (gaps["scope"] == scope)].fillna("")
    pairs = list(dict.fromkeys(zip(of["benchmark"], of["metric"], strict=True)))
    if not pairs:
        return ""
    benchmark, metric = (str(part) for part in pairs[0])
    unit = ", percent" if metric.lower().startswith(("pass@", "avg@")) else ""
    more = f" and {len(pairs) - 1} more" if len(pairs) > 1 else ""
    return f"{benchmark} {metric}{unit}{more}: ".lstrip()


def in_use(verdicts: pd.DataFrame) -> list[str]:
    """Return the scopes that some claim has a predicate for."""
    return [scope for scope in SCOPES if (verdicts[f"{scope}_numbers"] != "").any()]


def _words(row: dict, scope: str) -> list[str]:
    """Return [verdict, numbers], or a dash alone where the claim is not made at this scale."""
    numbers, state = row[f"{scope}_numbers"], row.get(f"{scope}_state")
    if state in GREY:
        numbers += f" (files of its runs are {state})"
    return [row[scope], numbers] if numbers else ["–"]
