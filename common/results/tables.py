"""Tables: joined, and as markdown. pandas' tabulate pads columns: a longer word would change every
committed line."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from common.errors import require


def together(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all parts. Empty parts, which may change a column's type, are left out."""
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def markdown(head: list[str], rows: list[list[str]], align: str = "") -> str:
    """Return a markdown table; `align` has l or r for each of the first columns."""
    rule = ["---:" if side == "r" else "---" for side in align.ljust(len(head), "l")]
    head, *rows = [[escaped(str(word)) for word in line] for line in (head, *rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def replaced(path: Path, name: str, part: str) -> str:
    """Return the text of a page with `part` between the marks of that name. Raises UserError where
    a mark is missing."""
    text = path.read_text()
    start, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- end of {name} -->"
    require(start in text and end in text, str(path), "marks", f"keep {start.strip()} and {end}")
    before, rest = text.split(start, 1)
    return f"{before}{start}{part}{end}{rest.split(end, 1)[1]}"
