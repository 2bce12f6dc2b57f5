"""What others report about the same models: papers/pretrained/published/public.csv.

Settings differ (prompt, decoding, length, steps), so a public number stands beside ours and is not
compared with it. An empty cell was not stated.
"""

import pandas as pd

from common.config.files import ROOT
from common.results.tables import markdown as to_markdown

FILE = ROOT / "papers" / "pretrained" / "published" / "public.csv"
HEAD = ["method", "base", "trained", "hardware", "minutes", "decoding", "source"]


def public(model: str) -> pd.DataFrame:
    """Return the rows of a model."""
    rows = pd.read_csv(FILE, dtype=str, keep_default_na=False)
    return rows[rows["model"] == model]


def markdown(model: str) -> str:
    """Return the rows of a model as a table; "" where there are none."""
    rows = public(model)
    if rows.empty:
        return ""
    lines = rows[["method", "base", "value", "hardware", "minutes", "decoding", "source"]]
    table = to_markdown(HEAD, lines.to_numpy().tolist(), "lrrlrll")
    where = f"{rows['benchmark'].iloc[0]}, {rows['metric'].iloc[0]} in percent"
    return f"\n## What others report, {where}\n\n{table}"
