"""The verdicts on claims as markdown and for a terminal."""

import pandas as pd

from common.claims.file import SCOPES
from common.claims.single import ONE_RUN
from common.results.provenance import GREY
from common.results.tables import markdown

COLORS = {"holds": "green", "fails": "red", "inconclusive": "yellow", ONE_RUN: "yellow"}
COLORS |= {"not run": "dim", "mechanism not engaged": "yellow", "not claimed here": "dim"}


def to_markdown(verdicts: pd.DataFrame) -> str:
    """Return the table of `verdicts` as markdown, with the numbers behind each verdict."""
    scopes = in_use(verdicts)
    rows = [
        [row["claim"], row["source"], *(": ".join(_words(row, scope)) for scope in scopes)]
        for row in verdicts.to_dict("records")
    ]
    return markdown(["claim", "source", *scopes], rows)


def to_terminal(verdicts: pd.DataFrame, gaps: pd.DataFrame):
    """Return what a terminal shows, in colour and in words: the claims that a rerun decided, with
    their numbers and what these measure (from `gaps`), then how many claims have which verdict at
    each scale. The rest is in the files."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    lines: list = []
    scopes = in_use(verdicts)
    for scope in (name for name in scopes if name != "published"):
        for row in verdicts.to_dict("records"):
            word = row[scope]
            if word not in ("holds", "fails"):
                continue
            grey = row.get(f"{scope}_state") in GREY
            verdict = (f"{word} ({scope})", "dim" if grey else COLORS[word])
            lines.append(Text.assemble(verdict, f" {row['claim']} [{row['source']}]"))
            numbers = _measured(gaps, row["id"], scope) + _words(row, scope)[1]
            lines.append(Padding(Text(numbers, "dim"), (0, 0, 0, 4)))
    if lines:
        lines.insert(
            0, Text("What a rerun decided, with the place in the paper and numbers", "bold")
        )
    for scope in scopes:
        counts = verdicts[scope].value_counts()
        known = [(word, counts[word]) for word in COLORS if word in counts]
        line = Text(", ").join(Text(f"{n} {word}", COLORS[word]) for word, n in known)
        lines.append(Text(f"claims, {scope}: ") + line)
    return Group(*lines)


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
