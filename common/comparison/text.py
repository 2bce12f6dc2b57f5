"""A comparison as text: for a terminal and in markdown. Every table of numbers is a Grid: one line
per model, method and kind of number, one column per benchmark and metric. A printed cell shows the
printed value, the rerun, and the rerun's gain over its baseline."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich import box
from rich.table import Table

from common.claims import text as claim_text
from common.claims.file import LAPTOP, PUBLISHED, Claim
from common.claims.judge import WITHOUT
from common.comparison.calibrate import CELLS, NONE, stored
from common.comparison.gains import NOT_RUN, VERDICTS
from common.comparison.published import order as place
from common.comparison.spec import MEASURES, Columns
from common.results.columns import CELL
from common.results.provenance import GREY
from common.results.tables import escaped
from common.results.tables import markdown as to_markdown

MARKS = {"differs": "≠", "partial": "~"}  # written after a rerun; "within noise" has none
GONE, SIGNIFICANT = "!", "*"
LEGEND = {
    MARKS["differs"]: "differs from the printed value",
    MARKS["partial"]: "fewer problems than printed",
    GONE: "files gone or changed",
    SIGNIFICANT: "gain over the baseline with p < .05 by F-GRPO's App. I (samples drawn again)",
}
CELL_VERDICTS = ("within noise", *MARKS, "not run", "not reproducible")
HEADLINE = ("headline claim", "printed", "yours", "your verdict", "stored here")
RERUNS = {
    "laptop": "not the paper's model or task: 0.4 M parameters, Subset-Countdown; mean ± standard "
    "error over seeds",
    "cluster": "mean ± standard error over seeds",
}
# model, method, column, and the cell's text by kind
GridCell = tuple[str, str, str, dict[str, str]]


# ---- tables of numbers


@dataclass(frozen=True)
class Grid:
    """A table as text. The first `names` columns name a line, the others hold numbers."""

    title: str
    names: int
    head: list[str]
    lines: list[list[str]]


def grid(title: str, cells: Iterable[GridCell], order: Iterable[str] = ()) -> Grid:
    """Return the cells laid out by model, method and kind, with columns in `order`."""
    rows: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for model, method, column, texts in cells:
        rows.setdefault((model, method), {})[column] = texts
    there = dict.fromkeys(column for found in rows.values() for column in found)
    columns = [name for name in dict.fromkeys([*order, *there]) if name in there]
    models = dict.fromkeys(model for model, _ in rows)
    lines = []
    for (model, method), found in rows.items():
        names = [model, method or "–"]
        for kind in dict.fromkeys(kind for texts in found.values() for kind in texts):
            words = [found.get(column, {}).get(kind, "") for column in columns]
            if any(words):
                lines.append([*names, kind, *words])
                names = ["", ""]
    several = len(models) > 1
    (first, *others) = models or [""]
    title += f": {first}" if title and first and not others else ""
    kept = [name for name, use in enumerate((several, True, any(x[2] for x in lines))) if use]
    head = ["model", "method", "", *columns]
    pick = [*kept, *range(3, len(head))]
    return Grid(title, len(kept), [head[i] for i in pick], [[x[i] for i in pick] for x in lines])


def as_markdown(one: Grid) -> str:
    align = "l" * one.names + "r" * (len(one.head) - one.names)
    return f"{one.title}\n\n" * bool(one.title) + to_markdown(one.head, one.lines, align)


def printed_tables(cells: pd.DataFrame, gains: pd.DataFrame) -> dict[str, Grid]:
    """Return the printed tables that have a rerun, by name; gains: as in gains.csv."""
    of = {tuple(row[name] for name in CELL): row for row in reversed(_objects(gains))}
    again = cells.groupby("table")["rerun"].transform("count") > 0
    made, parts = {}, dict(iter(cells[again].groupby("table")))
    for name in sorted(parts, key=place):
        digits = {m: decimals(part["value"]) for m, part in parts[name].groupby("metric")}
        laid = []
        for row in _objects(parts[name]):
            gain = of.get(tuple(row[name] for name in CELL), {}) if row["rerun"] != "" else {}
            texts = _texts(row, gain, digits[row["metric"]])
            column = " ".join(filter(None, (row["benchmark"], row["metric"]))).replace("_", " ")
            laid.append((row["model"], row["method"], column, texts))
        made[name] = grid(table_title(name), laid)
    return made


def _texts(row: dict, gain: dict, digits: int) -> dict[str, str]:
    again = rounded(row["rerun"], digits)
    if again:
        again += GONE if row["state"] in GREY else MARKS.get(row["verdict"], "")
    more = ""
    if gain:
        sure = gain.get("p_samples", "") != "" and gain["p_samples"] < 0.05
        more = rounded(gain["rerun"], digits, "+") + SIGNIFICANT * sure
    return {"printed": rounded(row["value"], digits), "rerun": again, "gain": more}


def legend(shown: Iterable[Grid]) -> str:
    ends = {word[-1] for one in shown for line in one.lines for word in line[one.names :] if word}
    return "; ".join(f"{mark} {text}" for mark, text in LEGEND.items() if mark in ends)


def means(title: str, frame: pd.DataFrame, columns: Columns) -> Grid:
    """Return rows of a comparison's summary, a column for each title -> (benchmark, metric)."""
    titles = {pair: name for name, pair in columns.items()}
    cells = [
        (_plain(row["model"]), _plain(row["method"]), titles[pair], {"": _number(row)})
        for row in frame.to_dict("records")
        if (pair := (row["benchmark"], row["metric"])) in titles
    ]
    return grid(title, cells, columns)


# ---- the comparison


def markdown(x) -> str:
    parts = [f"# {x.spec.title}: published and rerun\n", gains_text(x.gains), "## Claims\n"]
    parts += [claim_text.to_markdown(x.verdicts), "\n## Published cells\n", counted(x.cells)]
    parts.append(without_effect(x) + "\n")
    shown = printed_tables(x.cells, x.gains)
    if shown:
        parts.append("\n## Printed, rerun, and the gain over the baseline\n")
        parts += ["\n" + as_markdown(one) for one in shown.values()]
        marks = legend(shown.values())
        parts.append(f"\n{marks}\n" * bool(marks))
    lines = apart(x.cells)
    parts += ["\n## Cells that are not within noise\n", *lines] if lines else []
    for scope, what in RERUNS.items():
        rerun = x.summary[x.summary["scope"] == scope]
        for name, part in rerun.groupby("table", sort=False):
            if name not in shown:
                columns = MEASURES if scope == "laptop" else _as_they_come(part)
                parts.append(f"\n## {scope.capitalize()}: {name} ({what})\n")
                parts.append(as_markdown(means("", part, columns)))
    parts += notes(x)
    if x.left_out:
        parts += ["\n## Left out\n", *(f"- {reason}\n" for reason in x.left_out)]
    return "".join(parts)


def headlines(x, claims: list[Claim], stored: Path) -> Table:
    """Return the headline claims, a line for each scale rerun; `stored`: the committed results."""
    title = f"{x.spec.title}: differences, with 95 % intervals over seeds"
    table = Table(*HEADLINE, title=title, box=box.SIMPLE_HEAD)
    mine, theirs, known = x.verdicts.set_index("id"), x.verdicts.iloc[:0], x.gaps.iloc[:0]
    if (stored / "claims.csv").exists():  # a paper that was just begun has none
        theirs = pd.read_csv(stored / "claims.csv", index_col="id")
        known = pd.read_csv(stored / "gaps.csv")
    for claim in (one for one in claims if one.headline):
        name = claim.id
        made = [scope for scope in RERUNS if mine.at[name, scope] not in WITHOUT]
        for scope in made or [LAPTOP]:
            verdict, other = mine.at[name, scope], theirs[scope].get(name, NOT_RUN)
            said = effect(known, name, scope, other)
            table.add_row(
                claim.headline + f" ({scope})" * (scope != LAPTOP),
                effect(x.gaps, name, PUBLISHED) or "no number",
                effect(x.gaps, name, scope, verdict),
                verdict,
                f"{said}: {other}" if said else other,
            )
    return table


def effect(gaps: pd.DataFrame, claim: str, scope: str, verdict: str = "") -> str:
    """Return the first comparison behind a claim, or the mean of all, with interval and seeds."""
    found = gaps[(gaps["claim"] == claim) & (gaps["scope"] == scope)]
    if found.empty:
        return ""
    row = found.iloc[0]
    if scope == PUBLISHED:
        ends = (found["difference"].min(), found["difference"].max())
        return " to ".join(dict.fromkeys(f"{end:+z.1f}" for end in ends))
    seeds = "" if pd.isna(row["n_seeds"]) else f", {row['n_seeds']:.0f} seeds"
    more = f" (first of {len(found)})" if len(found) > 1 else ""
    if row["of"] > 1:
        alone = (found["verdict"].iloc[1:] == "holds").sum()
        more = f" (mean of {row['of']:.0f}; {alone} alone)"
    at = " at equal pass@1" if " from +" in row["metric"] else ""
    return claim_text.difference(row, verdict) + at + seeds + more


def terminal(x) -> str:
    """Return how many claims, gains and printed cells have which verdict."""
    lines = claim_text.counts(x.verdicts)
    for title, verdicts, order in (
        ("gains over the baselines", x.gains["verdict"], VERDICTS),
        ("printed cells", x.cells["verdict"], CELL_VERDICTS),
    ):
        if set(verdicts) - {NOT_RUN}:
            found = verdicts.value_counts()
            known = ", ".join(f"{found[name]} {name}" for name in order if name in found)
            lines.append(f"{title}: {known}")
    return "\n".join(lines) + without_effect(x)


def without_effect(x) -> str:
    """Return what share of cells would be within noise if no method worked; "" if unknown."""
    found = stored(x.spec.paper)
    found = found[(found["claim"] == CELLS) & (found["world"] == NONE)]
    known = found.loc[found["seeds"] == x.cells["n_seeds"].min(), "holds"]
    if known.empty:
        return ""
    return (
        f"\nIf no method had an effect, {100 * known.iloc[0]:.0f} % of cells were within noise too."
    )


# ---- parts of it


def gains_text(gains: pd.DataFrame) -> str:
    """Return how many gains per table have which verdict, then the gains; "" without a rerun."""
    run = gains[gains["verdict"] != NOT_RUN]
    if run.empty:
        return ""
    lines = []
    for row in run.to_dict("records"):
        where = f"{row['table']} {row['model']} {row['method']} over {row['baseline']}, "
        where += f"{row['benchmark']} {row['metric']}: printed {row['printed']:+.3g}, "
        interval = f"[{_short(row['low'])}, {_short(row['high'])}]"
        more = f"; p {_short(row['p_samples'])}; detectable {_short(row['mdd'])}"
        lines.append(f"- {row['verdict']} {where}rerun {row['rerun']:+.3g} {interval}{more}\n")
    about = (
        "\nIn brackets: where the gain of one further pair of runs would lie with 95 %. "
        "Detectable: the smallest gain found four times in five. "
        "p: over samples (F-GRPO App. I).\n\n"
    )
    head = "## Gains over the baselines\n"
    return "".join([head, counted(gains, VERDICTS), about, *lines, "\n"])


def counted(rows: pd.DataFrame, known: Iterable[str] = ()) -> str:
    """Return how many rows of each table have which verdict."""
    order = known or CELL_VERDICTS
    table = pd.crosstab(rows["table"], rows["verdict"])
    table = table[[name for name in order if name in table]]
    lines = [[name, *map(str, row)] for name, row in zip(table.index, table.values, strict=True)]
    return to_markdown(["table", *table.columns], lines)


def apart(cells: pd.DataFrame) -> list[str]:
    """Return a line for each cell whose rerun is not within noise."""
    there = cells["rerun"].notna() & (cells["verdict"] != "within noise")
    lines = []
    for row in cells[there].to_dict("records"):
        where = " ".join(filter(None, (_plain(row[name]) for name in CELL)))
        said = f"{where}: printed {row['value']:.4g}, rerun {row['rerun']:.4g}"
        if not pd.isna(row["low"]):
            said += f" [{row['low']:.4g}, {row['high']:.4g}]"
        said += f" ({row['state']} files)" * (row["state"] in GREY)
        said += f" ({row['notes']})" * bool(row["notes"])
        lines.append(f"- {row['verdict']} {said}\n")
    return lines


def notes(x) -> list[str]:
    lines = []
    for row in x.notes.to_dict("records"):
        one = {name: escaped(_plain(value)) for name, value in row.items()}
        said, but = one["what_the_paper_says"], one["what_contradicts_it"]
        lines.append(f"- {one['id']} ({one['where'] or 'the paper'}): {said}; but {but}\n")
    return ["\n## Inconsistencies in the paper\n", *lines] if lines else []


def table_title(table: str) -> str:
    return re.sub(r"^table_?", "Table ", table).replace("_", " ")


def decimals(values: pd.Series) -> int:
    """Return the number of decimals that a metric is printed with in a table."""
    shown = (f"{value:.6f}".rstrip("0").partition(".")[2] for value in values)
    return max(map(len, shown), default=0)


def rounded(value, digits: int, sign: str = "") -> str:
    return "" if value == "" else f"{value:{sign}z.{digits}f}"


def _as_they_come(frame: pd.DataFrame) -> Columns:
    pairs = frame[["benchmark", "metric"]].drop_duplicates().itertuples(index=False, name=None)
    return {" ".join(map(_plain, pair)): pair for pair in pairs}


def _objects(frame: pd.DataFrame) -> list[dict]:
    """Return the rows as dicts, with missing numbers and text as ""."""
    return frame.astype(object).where(frame.notna(), "").to_dict("records")


def _plain(value: object) -> str:
    return "" if value is None or value != value else " ".join(str(value).split())


def _short(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.2g}"


def _number(row: dict) -> str:
    digits = 2 if row["unit"] != "percent" else 1
    text = f"{row['value']:.{digits}f}"
    text = text if pd.isna(row["stderr"]) else f"{text} ± {row['stderr']:.{digits}f}"
    return f"{text} (files {row['state']})" if row["state"] in GREY else text
