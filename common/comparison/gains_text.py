"""The table of gains as text. It comes first in every comparison with cluster runs."""

import pandas as pd

from common.comparison.gains import NOT_RUN, VERDICTS
from common.results.tables import markdown as to_markdown

COLORS = dict(zip(VERDICTS, ("green", "red", "cyan", "red", "yellow", "dim"), strict=True))


def markdown(gains: pd.DataFrame) -> str:
    """Return how many gains per table have which verdict, then the gains; "" without a rerun."""
    run = gains[gains["verdict"] != NOT_RUN]
    if run.empty:
        return ""
    counts = pd.crosstab(gains["table"], gains["verdict"])
    counts = counts[[name for name in VERDICTS if name in counts]]
    rows = [[name, *map(str, row)] for name, row in zip(counts.index, counts.values, strict=True)]
    parts = ["## Gains over the baselines\n", to_markdown(["table", *counts.columns], rows)]
    parts.append(
        "\nIn brackets: where the gain of one further pair of runs would lie with 95 %. "
        "Detectable: the smallest gain found four times in five. "
        "p: over samples (F-GRPO App. I) and over problems.\n"
    )
    for name, part in run.groupby("table", sort=False):
        words = [row_words(row) for row in part.to_dict("records")]
        parts += [f"\n### {name}, gain by gain\n", to_markdown(list(words[0]), _lists(words))]
    return "".join(parts) + "\n"


def row_words(row: dict) -> dict[str, str]:
    """Return the columns of one gain as text."""
    interval = f"[{_number(row['low'])}, {_number(row['high'])}]"
    return {
        **{name: str(row[name]) for name in ("model", "method", "baseline", "benchmark", "metric")},
        "printed": _signed(row["printed"]),
        "rerun": f"{_signed(row['rerun'])} {interval}",
        "p": f"{_number(row['p_samples'])}, {_number(row['p_problems'])}",
        "detectable": _number(row["mdd"]),
        "verdict": row["verdict"],
    }


def terminal(gains: pd.DataFrame):
    """Return, for a terminal of 100 columns, how many gains have which verdict, and the gains whose
    verdict is neither "agrees" nor "cannot tell"."""
    from rich.console import Group
    from rich.text import Text

    run = gains[gains["verdict"] != NOT_RUN]
    if run.empty:
        return Group()
    counts = gains["verdict"].value_counts()
    known = [(name, counts[name]) for name in VERDICTS if name in counts]
    line = Text(", ").join(Text(f"{n} {name}", COLORS[name]) for name, n in known)
    lines = [Text("gains over the baselines: ") + line]
    for row in run[~run["verdict"].isin(["agrees", "cannot tell"])].to_dict("records"):
        words = row_words(row)
        where = f" {row['table']} {row['model']} {row['method']} over {row['baseline']}, "
        where += f"{row['benchmark']} {row['metric']}: printed {words['printed']}, rerun "
        lines.append(Text.assemble((row["verdict"], COLORS[row["verdict"]]), where, words["rerun"]))
    return Group(*lines)


def shown(gains: pd.DataFrame) -> list[dict[str, str]]:
    """Return the gains that have a rerun, as text, each with its table."""
    run = gains[gains["verdict"] != NOT_RUN]
    return [{"table": row["table"], **row_words(row)} for row in run.to_dict("records")]


def _lists(words: list[dict[str, str]]) -> list[list[str]]:
    return [list(one.values()) for one in words]


def _signed(value: float) -> str:
    return f"{value:+.3g}"


def _number(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.2g}"
