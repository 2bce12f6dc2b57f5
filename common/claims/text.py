"""The verdicts on claims for people: markdown, a terminal."""

import pandas as pd

from common.claims.file import SCOPES
from common.results.provenance import GREY
from common.results.tables import markdown

COLORS = {"holds": "green", "fails": "red", "inconclusive": "yellow", "not run": "dim"}
COLORS |= {"mechanism not engaged": "yellow", "not claimed here": "dim"}


def to_markdown(verdicts: pd.DataFrame) -> str:
    """The table of `verdicts` as markdown, the numbers behind each verdict."""
    scopes = in_use(verdicts)
    rows = [
        [row["claim"], row["source"], *(": ".join(_words(row, scope)) for scope in scopes)]
        for row in verdicts.to_dict("records")
    ]
    return markdown(["claim", "source", *scopes], rows)


def to_terminal(verdicts: pd.DataFrame):
    """The table of `verdicts` as a rich table; verdicts in colour and in words."""
    from rich.table import Table
    from rich.text import Text

    scopes = in_use(verdicts)
    table = Table(show_lines=True)
    for name in ("claim", "source", *scopes):
        table.add_column(name, overflow="fold", ratio={"claim": 3, "source": 2}.get(name, 3))
    for row in verdicts.to_dict("records"):
        cells = []
        for scope in scopes:
            verdict, *numbers = _words(row, scope)
            grey = row.get(f"{scope}_state") in GREY
            text = Text(verdict, "dim" if grey else COLORS.get(verdict, "dim"))
            cells.append(text.append("".join(f"\n{line}" for line in numbers), "dim"))
        table.add_row(Text(row["claim"]), Text(row["source"]), *cells)
    return table


def in_use(verdicts: pd.DataFrame) -> list[str]:
    """The scopes that some claim has a predicate for."""
    return [scope for scope in SCOPES if (verdicts[f"{scope}_numbers"] != "").any()]


def _words(row: dict, scope: str) -> list[str]:
    """Verdict and numbers; a dash where the claim is not made at this scale."""
    numbers, state = row[f"{scope}_numbers"], row.get(f"{scope}_state")
    if state in GREY:
        numbers += f" (files of its runs are {state})"
    return [row[scope], numbers] if numbers else ["–"]
