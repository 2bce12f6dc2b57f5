"""A comparison as text: markdown, a terminal, CSV, JSON, LaTeX."""

import json

import pandas as pd

from common.claims import text as claim_text
from common.comparison import gains_text, layout, layout_text, replication
from common.comparison.spec import Columns
from common.results.provenance import GREY
from common.results.tables import escaped, latex
from common.results.tables import markdown as to_markdown

RERUNS = {
    "laptop": (
        "0.4 M parameters, Subset-Countdown; mean ± standard error over seeds",
        "Another model and another task: these rows stand beside the published ones, never for"
        " them.\n\n",
    ),
    "cluster": ("mean ± standard error over seeds", ""),
}
NUMBERED = ("rerun", "low", "high", "difference", "value")
COLORS = {"within noise": "green", "differs": "red", "partial": "yellow"}  # the others are dim


def markdown(x) -> str:
    """Return the comparison as markdown: gains, claims, printed cells beside reruns, then further
    tables and notes."""
    parts = [f"# {x.spec.title}: published and rerun\n", gains_text.markdown(x.gains)]
    parts.append("## Claims\n")
    parts += [claim_text.to_markdown(x.verdicts), "\n## Published cells\n", counted(x.cells)]
    shown = layout.shown(x)
    if shown:
        parts.append("\n## Printed, rerun, and the gain over the baseline\n")
        parts += ["\n" + layout_text.markdown(block) for _, blocks in shown for block in blocks]
        legend = layout_text.legend(shown)
        parts.append(f"\n{legend}\n" * bool(legend))
    for table in replication.tables(x.replicated, x.spec) if len(x.replicated) else ():
        parts += ["\n" + layout_text.markdown(block) for block in layout.blocks(table)]
        parts.append(f"\n{layout.counted(table)}. {replication.LEGEND}\n")
    for name, part in apart(x.cells).groupby("table", sort=False):
        parts += [f"\n### {name}, cells that are not within noise\n", cell_table(part)]
    ran = {table.name for table, _ in shown}
    for name, caption, columns in x.spec.published:
        if name in ran:
            continue
        printed = x.summary[(x.summary["scope"] == "published") & (x.summary["table"] == name)]
        parts += [f"\n## Published: {caption}\n", pivot(printed, columns)]
    for scope, (what, warning) in RERUNS.items():
        rerun = x.summary[x.summary["scope"] == scope]
        for name in rerun["table"].unique():
            if name in ran:
                continue
            part = rerun[rerun["table"] == name]
            columns = x.spec.laptop if scope == "laptop" else as_they_come(part)
            parts += [f"\n## {scope.capitalize()}: {name} ({what})\n", warning]
            parts.append(pivot(part, columns))
    parts += ["\n## Minimum detectable difference (points; p < 0.05, 80 % power)\n"]
    parts.append(power_table(x.detectable))
    parts += notes(x)
    if len(x.missing):
        parts.append("\n## Without a result\n")
        parts += [
            f"- {row.key} ({row.kind}): {row.state} {row.detail}\n"
            for row in x.missing.itertuples()
        ]
    if x.left_out:
        parts += ["\n## Left out\n", *(f"- {reason}\n" for reason in x.left_out)]
    return "".join(parts)


def counted(cells: pd.DataFrame) -> str:
    """Return how many printed cells of each table have which verdict."""
    table = pd.crosstab(cells["table"], cells["verdict"])
    table = table[[name for name in (*COLORS, "not run", "not reproducible") if name in table]]
    rows = [[name, *map(str, row)] for name, row in zip(table.index, table.values, strict=True)]
    return to_markdown(["table", *table.columns], rows)


def apart(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells whose rerun is not within noise, or is lost. cells.csv has all cells."""
    there = cells["rerun"].notna() & (cells["verdict"] != "within noise")
    return cells[there | cells["reason"].str.startswith("without a result")]


def as_they_come(frame: pd.DataFrame) -> Columns:
    """Return all columns of a table that is not printed, in order of appearance."""
    pairs = frame[["benchmark", "metric"]].drop_duplicates().itertuples(index=False, name=None)
    return {" ".join(map(_plain, pair)): pair for pair in pairs}


def cell_table(cells: pd.DataFrame) -> str:
    head = "model method benchmark metric printed rerun interval difference verdict notes".split()  # noqa: SIM905
    return to_markdown(head, [list(_cell_words(row).values()) for row in cells.to_dict("records")])


def _cell_words(row: dict) -> dict[str, str]:
    number = {name: "" if pd.isna(row[name]) else f"{row[name]:.4g}" for name in NUMBERED}
    interval = f"[{number['low']}, {number['high']}]" if number["low"] else ""
    grey = f" ({row['state']} files)" if row["state"] in GREY else ""
    why = f": {row['reason']}" if not number["rerun"] else ""
    return {
        **{name: _plain(row[name]) for name in ("model", "method", "benchmark", "metric")},
        "printed": number["value"],
        "rerun": number["rerun"],
        "interval": interval,
        "difference": number["difference"],
        "verdict": row["verdict"] + grey + why,
        "notes": row["notes"].replace(";", ", "),
    }


def pivot(frame: pd.DataFrame, columns: Columns) -> str:
    """Return a markdown table with one line per model and method, and one column for each title ->
    (benchmark, metric). The model is named where the table has several."""
    keys = frame[["model", "method"]].drop_duplicates()
    several = keys["model"].nunique() > 1
    rows = []
    for model, method in keys.itertuples(index=False):
        group = frame[(frame["model"] == model) & (frame["method"] == method)]
        line = [_plain(model), _plain(method)] if several else [_plain(method)]
        for benchmark, metric in columns.values():
            hit = group[(group["benchmark"] == benchmark) & (group["metric"] == metric)]
            line.append(_number(hit.iloc[0]) if len(hit) else "")
        if any(line[1 + several :]):
            rows.append(line)
    names = ["model", "method"][not several :]
    return to_markdown([*names, *columns], rows, "l" * len(names) + "r" * len(columns))


def power_table(detectable: pd.DataFrame) -> str:
    head = ["scope", "table", "benchmark", "metric", "problems", "seeds", "detectable", "basis"]
    names = [*head[:4], "n_problems", "n_seeds", "mdd", "basis"]
    rows = [
        [f"{v:.3g}" if isinstance(v, float) and v == v else _plain(v) for v in row]
        for row in detectable[names].itertuples(index=False)
    ]
    return to_markdown(head, rows)


def notes(x) -> list[str]:
    """Return the section on the paper's inconsistencies, each with the cells or tables that it
    affects."""
    lines = []
    for row in x.notes.to_dict("records"):
        where = f"{row['cells']} cells of {row['tables']}" if row["cells"] else row["tables"]
        said, but = (
            escaped(_plain(row[name])) for name in ("what_the_paper_says", "what_contradicts_it")
        )
        lines.append(f"- {row['id']} ({where or 'the paper'}; {row['where']}): {said}; but {but}\n")
    return ["\n## Inconsistencies in the paper\n", *lines] if lines else []


def terminal(x) -> None:
    """Print what a rerun decided, and how much else there is, in 100 columns: gains, the printed
    tables with a rerun, claims, the printed cells that are not within noise of their rerun, and
    counts."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console.width = layout.WIDTH
    console.print(gains_text.terminal(x.gains))
    width = min(console.width, layout.WIDTH) if console.is_terminal else layout.WIDTH
    shown = layout.shown(x, width)
    for _, blocks in shown:
        print_blocks(console, blocks)
    if legend := layout_text.legend(shown):
        console.print(legend, "", sep="\n", markup=False)
    for table in replication.tables(x.replicated, x.spec) if len(x.replicated) else ():
        print_blocks(console, layout.blocks(table, width=width))
        said = f"{layout.counted(table)}. {replication.LEGEND}"
        console.print(said, "", sep="\n", markup=False)
    console.print(claim_text.to_terminal(x.verdicts, x.gaps))
    for row in apart(x.cells).to_dict("records"):
        words = _cell_words(row)
        color = "dim" if row["state"] in GREY else COLORS.get(row["verdict"], "dim")
        where = [row["table"], *(words[name] for name in ("model", "method", "benchmark"))]
        where = " ".join(filter(None, [*where, words["metric"]]))
        line = Text.assemble((words["verdict"], color), f" {where}: printed {words['printed']}")
        if words["rerun"]:
            line.append(f", rerun {words['rerun']} {words['interval']}".rstrip())
        console.print(line)
    counts = x.cells["verdict"].value_counts()
    console.print("printed cells: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    for row in x.missing.itertuples():
        console.print(f"without a result: {row.key} {row.state} {row.detail}", markup=False)


def print_blocks(console, blocks: list[layout.Block]) -> None:
    from rich.text import Text

    for block in blocks:
        lines = [Text(line) for line in layout_text.plain(block)]
        lines[0].stylize("bold")
        console.print(*lines, "", sep="\n", soft_wrap=True)


def to_json(x) -> str:
    """Return all tables as JSON lists of objects; missing numbers are null."""
    names = (
        "gains",
        "verdicts",
        "gaps",
        "cells",
        "summary",
        "detectable",
        "notes",
        "runs",
        "missing",
        "replicated",
    )
    tables = {
        name: json.loads(getattr(x, name).to_json(orient="records", double_precision=10))
        for name in names
    }
    whole = {"paper": x.spec.paper, "title": x.spec.title, **tables, "left_out": x.left_out}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def to_csv(x) -> str:
    return x.verdicts.to_csv(index=False, lineterminator="\n")


def to_latex(x) -> str:
    """Return the claims as a LaTeX tabular, and each printed table with a rerun as booktabs
    tables."""
    scopes = claim_text.in_use(x.verdicts)
    claims = [
        [row["claim"], row["source"], *(row[s] if row[f"{s}_numbers"] else "--" for s in scopes)]
        for row in x.verdicts.to_dict("records")
    ]
    parts = [latex(["claim", "source", *scopes], claims, "p{6cm}p{3cm}" + "l" * len(scopes))]
    for table, blocks in layout.shown(x):
        for i, block in enumerate(blocks, 1):
            parts.append(layout_text.latex(block, f"{x.spec.paper}-{table.name}-{i}"))
    return "\n".join(parts)


RENDERERS = {"md": markdown, "csv": to_csv, "json": to_json, "latex": to_latex}


def _plain(value: object) -> str:
    """Return the text of a cell on one line."""
    return "" if value is None or value != value else " ".join(str(value).split())


def _number(row: pd.Series) -> str:
    digits = 2 if row["unit"] != "percent" else 1
    text = f"{row['value']:.{digits}f}"
    text = text if pd.isna(row["stderr"]) else f"{text} ± {row['stderr']:.{digits}f}"
    return f"{text} (files {row['state']})" if row["state"] in GREY else text
