"""The printed tables in their own layout: one row per model and method, one column per benchmark
and metric, both in the order of published/table*.csv. A cell has the printed value, the rerun, and
the gain of the rerun over the rerun of its baseline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap
from typing import TypeVar

import pandas as pd

from common.results.provenance import GREY

CELL = ["model", "method", "benchmark", "metric"]
MARKS = {"differs": "≠", "partial": "~"}  # written after a rerun; "within noise" has none
GONE, SIGNIFICANT = "!", "*"
LEGEND = {
    MARKS["differs"]: "differs from the printed value",
    MARKS["partial"]: "fewer problems than printed",
    GONE: "files gone or changed",
    SIGNIFICANT: "gain over the baseline with p < .05 by F-GRPO's App. I (samples drawn again)",
}
WIDTH = 100  # of a terminal, in characters
NARROWEST = 5  # of a column

Column = tuple[str, str]  # benchmark, metric
X = TypeVar("X")
Bodies = tuple[tuple[str, tuple[tuple[str, dict[Column, X]], ...]], ...]  # model, method, cells


@dataclass(frozen=True)
class Entry:
    """A cell: its lines of text by kind, and the rows of cells.csv and gains.csv that they are
    from, {} if none."""

    lines: dict[str, str]
    row: dict = field(default_factory=dict)
    gain: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[Column, ...]
    bodies: Bodies[Entry]
    name: str = ""
    counts: Counter[str] = field(default_factory=Counter)  # number of its cells by verdict


@dataclass(frozen=True)
class Line:
    """A line of a block. A line that names a model above its rows has `kind` "" and no cells."""

    label: str
    kind: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A part of a table that fits into the width."""

    title: str
    head: tuple[tuple[str, ...], ...]  # the heading lines of each column, from the top
    lines: tuple[Line, ...]
    widths: tuple[int, ...]  # of the labels, the kinds and each column


def tables(cells: pd.DataFrame, gains: pd.DataFrame, stacked: Iterable[str] = ()) -> list[Table]:
    """Return every printed table. cells: cells.COLUMNS; gains: as in gains.csv, may be empty;
    stacked: tables with a row for each benchmark of a method (`Spec.stacked`)."""
    key = ["table", *CELL]
    of = {tuple(row[name] for name in key): row for row in reversed(objects(gains))}
    made, parts = [], dict(iter(cells.groupby("table")))
    for name in sorted(parts, key=_place):
        frame = parts[name]
        digits = {m: decimals(part["value"]) for m, part in frame.groupby("metric", sort=False)}
        rows = []
        for row in objects(frame):
            gain = of.get(tuple(row[name] for name in key), {}) if row["rerun"] != "" else {}
            one = entry(row, gain, digits[row["metric"]])
            where = [row["method"], row["benchmark"], row["metric"]]
            if name in stacked:
                where = [", ".join(dict.fromkeys(where[:2])), "", where[2]]
            rows.append((row["model"], where[0], (where[1], where[2]), one))
        columns, bodies = arranged(rows)
        counts = Counter(frame["verdict"])
        made.append(Table(title(name), columns, bodies, name, counts))
    return made


def entry(row: dict, gain: dict, digits: int) -> Entry:
    """Return a printed cell beside its rerun."""
    again = rounded(row["rerun"], digits)
    if again:
        again += GONE if row["state"] in GREY else MARKS.get(row["verdict"], "")
    more = ""
    if gain:
        sure = gain.get("p_samples", "") != "" and gain["p_samples"] < 0.05
        more = rounded(gain["rerun"], digits, "+") + SIGNIFICANT * sure
    return Entry(
        {"printed": rounded(row["value"], digits), "rerun": again, "gain": more}, row, gain
    )


def shown(x, width: int = WIDTH) -> list[tuple[Table, list[Block]]]:
    """Return the tables of a comparison that have a rerun, each with its blocks, which are at most
    `width` characters wide."""
    found = tables(x.cells, x.gains, x.spec.stacked)
    made = [(one, blocks(one, x.spec.averages, width)) for one in found]
    return [pair for pair in made if pair[1]]


def flat(table: Table) -> Iterator[tuple[str, str, Column, Entry]]:
    for model, rows in table.bodies:
        for method, cells in rows:
            for column, cell in cells.items():
                yield model, method, column, cell


def counted(table: Table) -> str:
    """Return the number of cells by verdict as text: "23 replicates, 1 differs"."""
    return ", ".join(f"{n} {word}" for word, n in table.counts.items())


def _place(table: str) -> tuple[bool, int, int, str]:
    """Return a sort key: Table 2 before Table 10, then the tables of a paper's second version, then
    names without a number."""
    found = re.fullmatch(r"table(\d+)(?:_v(\d+))?", table)
    return (found is None, *((int(found[2] or 1), int(found[1])) if found else (0, 0)), table)


def title(table: str) -> str:
    return re.sub(r"^table_?", "Table ", table).replace("_", " ")


def arranged(
    rows: Iterable[tuple[str, str, Column, X]], order: Iterable[Column] = ()
) -> tuple[tuple[Column, ...], Bodies[X]]:
    """Return (the columns, the cells by model and method). Columns come as in `order`, then as they
    appear in `rows`, with the columns of a benchmark side by side."""
    rows = list(rows)
    present = {column for _, _, column, _ in rows}
    columns = [c for c in dict.fromkeys([*order, *(c for _, _, c, _ in rows)]) if c in present]
    first = list(dict.fromkeys(benchmark for benchmark, _ in columns))
    columns.sort(key=lambda column: first.index(column[0]))
    by_model: dict[str, dict[str, dict[Column, X]]] = {}
    for model, method, column, cell in rows:
        by_model.setdefault(model, {}).setdefault(method, {})[column] = cell
    return tuple(columns), tuple((model, tuple(of.items())) for model, of in by_model.items())


def objects(frame: pd.DataFrame) -> list[dict]:
    """Return the rows as dicts, with missing numbers and text as ""."""
    return frame.astype(object).where(frame.notna(), "").to_dict("records")


def rounded(value, digits: int, sign: str = "") -> str:
    return "" if value == "" else f"{value:{sign}z.{digits}f}"


def decimals(values: pd.Series) -> int:
    """Return the number of decimals that a metric is printed with in a table."""
    shown = (f"{value:.6f}".rstrip("0").partition(".")[2] for value in values)
    return max(map(len, shown), default=0)


# ---- what fits side by side


def blocks(table: Table, breaks: Iterable[str] = (), width: int = WIDTH) -> list[Block]:
    """Return the parts of a table that say more than what is printed, each at most `width`
    characters wide where possible. A table that is too wide is split by metric, or by benchmark if
    it has at least as many metrics as benchmarks. A part that is still too wide is split before the
    benchmarks named in `breaks`, and if that is not enough into equal parts."""
    breaks, made = set(breaks), []
    for columns in _parts(table, breaks, width):
        one = _block(table, columns)
        if len({line.kind for line in one.lines if line.kind}) > 1:
            made.append(one)
    return made


def _parts(table: Table, breaks: set[str], width: int) -> list[Sequence[Column]]:
    def fits(columns: Sequence[Column]) -> bool:
        one = _block(table, columns)
        return sum(one.widths) + len(one.widths) - 1 <= width

    if fits(table.columns):
        return [table.columns]
    benchmarks, metrics = (len({column[i] for column in table.columns}) for i in (0, 1))
    by = 1 if metrics < benchmarks else 0
    ordered = sorted(table.columns, key=lambda c: _first(table.columns, by).index(c[by]))
    found: list[Sequence[Column]] = []
    for _, group in groupby(ordered, key=lambda column: column[by]):
        columns = list(group)
        pieces, count = [columns] if fits(columns) else _before(columns, breaks), 1
        while not all(map(fits, pieces)) and count < len(columns):
            count += 1
            size = -(-len(columns) // count)
            pieces = [columns[i : i + size] for i in range(0, len(columns), size)]
        found += pieces
    return found


def _first(columns: Sequence[Column], by: int) -> list[str]:
    return list(dict.fromkeys(column[by] for column in columns))


def _before(columns: list[Column], breaks: set[str]) -> list[list[Column]]:
    pieces: list[list[Column]] = []
    for column in columns:
        if not pieces or column[0] in breaks:
            pieces.append([])
        pieces[-1].append(column)
    return pieces


def _block(table: Table, columns: Sequence[Column]) -> Block:
    several = len(table.bodies) > 1
    lines: list[Line] = []
    for model, rows in table.bodies:
        of_model = [line for method, cells in rows for line in _lines(method, cells, columns)]
        lines += [Line(model, "", ())] * (several and bool(of_model)) + of_model
    alone = [len(set(names)) == 1 and len(columns) > 1 for names in zip(*columns, strict=True)]
    said = [name for name, one in zip(columns[0], alone, strict=True) if one]
    words = [one for one in [*([] if several else [table.bodies[0][0]]), *said] if one]
    name = table.title + f": {', '.join(words).replace('_', ' ')}" * bool(words)
    filled = [line for line in lines if line.kind]
    widest = [max((len(line.cells[i]) for line in filled), default=0) for i in range(len(columns))]
    widest = [max(width, NARROWEST) for width in widest]
    heads = [
        [
            word
            for name, one in zip(column, alone, strict=True)
            if not one
            for word in _wrapped(name, width)
        ]
        for column, width in zip(columns, widest, strict=True)
    ]
    depth = max(map(len, heads))
    head = tuple(tuple([""] * (depth - len(words)) + words) for words in heads)
    widths = [max(width, *map(len, words)) for words, width in zip(head, widest, strict=True)]
    left = [max((len(line.label) for line in filled), default=0)]
    left.append(max((len(line.kind) for line in filled), default=0))
    return Block(name, head, tuple(lines), (*left, *widths))


def _lines(method: str, cells: dict[Column, Entry], columns: Sequence[Column]) -> list[Line]:
    """Return the lines of a method that have text; the first one has its name."""
    found: list[Line] = []
    shown = [cells[column].lines if column in cells else {} for column in columns]
    for kind in dict.fromkeys(kind for lines in shown for kind in lines):
        words = tuple(lines.get(kind, "") for lines in shown)
        if any(words):
            found.append(Line("" if found else method or "–", kind, words))
    return found


def _wrapped(words: str, width: int) -> list[str]:
    return wrap(words.replace("_", " "), width, break_long_words=False, break_on_hyphens=False)
