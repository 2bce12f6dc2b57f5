"""Check that the intervals in a README or a page of docs/ follow from the stored comparisons. This
is part of `make reference-check`.

An interval is written `[low, high]` or `[low, high lower]`, as text, not as a link, with any number
of decimals. Rounded to these decimals, a comparison in its paper's gaps.csv or against_base.csv, or
in one of TABLES, must have this interval, with either side subtracted from the other. A number
right before the interval must be the difference, and a verdict right after it must be the verdict
on the claim.
"""

import re
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pandas as pd

from common.claims.judge import NOT_ENGAGED

NUMBER = r"[-+]?\d+(?:\.\d+)?"
INTERVAL = re.compile(
    rf"(?:(?P<value>{NUMBER})\s+(?:lower\s+|higher\s+)?)?"
    rf"\[(?P<low>{NUMBER}),\s+(?P<high>{NUMBER})(?:\s[a-z]+)?\](?!\()"
    rf"(?:(?:\s[a-z]+)?(?:\s[A-Z]\w+)?:\s+(?:the\s+claim\s+)?"
    rf"(?P<verdict>holds|fails|inconclusive|{NOT_ENGAGED})\b)?"
)
PAPER = re.compile(r"papers/(\w+)/")
COMPARED = ["difference", "low", "high"]
TABLES = {  # of yardsticks and pretrained models: comparisons -> their columns for COMPARED
    "ranking.csv": ["difference", "difference_low", "difference_high"],
    "controls.csv": COMPARED,
    "overnight/crossing.csv": COMPARED,
    "overnight/against_grpo.csv": COMPARED,
    "overnight/gain.csv": ["points", "low", "high"],
}


def differences(readme: Path, stored: Path, names: list[str], *, linked: bool) -> list[str]:
    """Return a message for each interval of a page that no comparison in <stored>/<name>/ has;
    `names` are folders of results. With `linked`, the first link of a line names its paper, and a
    line that links to none of `names` is skipped. Otherwise an interval may be from any of them."""
    text = readme.read_text()
    known = {name: _comparisons(stored / name) for name in names}
    parts = [*map(_linked, text.splitlines())]
    if not linked:
        every = ", ".join(names)
        known, parts = {every: pd.concat(known.values())}, [(every, text)]
    return [
        f"{readme}: {' '.join(match[0].split())!r} is no stored comparison's of {name}"
        for name, part in parts
        if name in known
        for match in INTERVAL.finditer(part)
        if not _known(match, known[name])
    ]


def _linked(line: str) -> tuple[str, str]:
    link = PAPER.search(line)
    return link[1] if link else "", line


def _comparisons(folder: Path) -> pd.DataFrame:
    """Return difference, low, high and the verdict on the claim, for each comparison of laptop
    runs. Comparisons in TABLES have no verdict."""
    tables = [file for file in TABLES if (folder / file).exists()]
    if tables:
        found = [
            pd.read_csv(folder / file)[TABLES[file]].dropna().set_axis(COMPARED, axis=1)
            for file in tables
        ]
        return pd.concat(found).assign(verdict=None)
    gaps = pd.read_csv(folder / "gaps.csv")
    claims = pd.read_csv(folder / "claims.csv").set_index("id")["laptop"]
    gaps = gaps[(gaps["scope"] == "laptop") & gaps["low"].notna()]
    gaps = gaps.assign(verdict=gaps["claim"].map(claims))
    base = folder / "against_base.csv"
    return pd.concat([gaps, pd.read_csv(base)]) if base.exists() else gaps


def _known(match: re.Match, gaps: pd.DataFrame) -> bool:
    for row in gaps[["difference", "low", "high", "verdict"]].itertuples():
        for value, low, high in (
            (row.difference, row.low, row.high),
            (-row.difference, -row.high, -row.low),
        ):
            written = {"value": value, "low": low, "high": high}
            numbers = all(match[key] is None or _is(match[key], x) for key, x in written.items())
            if numbers and match["verdict"] in (None, row.verdict):
                return True
    return False


def _is(text: str, value: float) -> bool:
    """Return whether `value`, rounded to the decimals of `text`, equals it; -0.0 equals 0.0."""
    printed = Decimal(text)
    return Decimal(str(value)).quantize(printed, rounding=ROUND_HALF_EVEN) == printed
