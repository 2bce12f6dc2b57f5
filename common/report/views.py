"""Claims and tables of a comparison in the form that the page's templates take.

A mark sets the colour and symbol of a verdict: good, bad, open, one (open because there is only one
run), idle (the mechanism did not engage), none (not run), never (cannot be reproduced), grey (the
files behind the number are gone or changed, whatever the verdict), absent (not claimed at this
scale).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from common.claims.file import SCOPES, predicate
from common.claims.single import ONE_RUN
from common.comparison import layout, replication
from common.comparison.compare import GREY
from common.comparison.gather import LAPTOP
from common.report.beside import OWN, SHOWN
from common.report.sources import Source

MARKS = {
    "holds": "good",
    "within noise": "good",
    "fails": "bad",
    "differs": "bad",
    "replicates": "good",
    "too few seeds": "open",
    "inconclusive": "open",
    ONE_RUN: "one",
    "partial": "open",
    "mechanism not engaged": "idle",
    "not run": "none",
    "not reproducible": "never",
    "not claimed here": "absent",
}
STATES = {
    "reference": "committed table, without its run folders",
    "computed": "closed form or simulation, no sampled run",
    "missing": "files of the run are gone: grey whatever the verdict",
    "changed": "files of the run were changed since it finished: grey whatever the verdict",
}
SAID = re.compile(r"(?:table|benchmark|metric)=(?:(?!, \w+=| and \w+=).)*(?:, )?")
FACETS = ("model", "method", "benchmark")
PUBLISHED = SCOPES[0]

Facets = dict[str, dict[str, int]]  # kind -> name -> its number in the page


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim in one scope."""

    scope: str
    word: str
    mark: str
    numbers: str
    state: str
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    id: str
    text: str
    source: str
    verdicts: tuple[Verdict, ...]
    gaps: tuple[dict, ...]  # the comparisons behind the verdicts
    facets: dict[str, str]
    section: str = ""  # of the paper


@dataclass(frozen=True)
class Cell:
    text: str
    rerun: str
    gain: str  # the rerun minus its baseline's rerun
    mark: str
    word: str
    state: str
    lines: tuple[tuple[str, str], ...]  # shown when the reader clicks on the cell
    notes: tuple[str, ...]  # ids of the paper's inconsistencies
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    model: str
    method: str
    cells: tuple[Cell | None, ...]  # by column


@dataclass(frozen=True)
class Table:
    name: str
    scope: str
    title: str
    columns: tuple[tuple[str, str], ...]  # (benchmark, metric)
    bodies: tuple[tuple[str, tuple[Row, ...]], ...]  # (model, its rows)
    counts: Counter  # cells by verdict

    @property
    def heads(self) -> list[tuple[str, int]]:
        """Return (benchmark, number of columns below it) for each header cell."""
        spans: list[tuple[str, int]] = []
        for benchmark, _ in self.columns:
            same = spans and spans[-1][0] == benchmark
            spans[-1:] = [(benchmark, spans[-1][1] + 1)] if same else [*spans[-1:], (benchmark, 1)]
        return spans


def by_section(claims: list[Claim]) -> list[tuple[str, list[Claim]]]:
    """Group consecutive claims of the same section."""
    return [(name, list(group)) for name, group in groupby(claims, lambda one: one.section)]


def mark(verdict: str, state: str) -> str:
    return "grey" if state in GREY else MARKS.get(verdict, "none")


def claims(source: Source, facets: Facets) -> list[Claim]:
    """Return every claim, in the order of claims.yaml."""
    comparison = source.comparison
    gaps: dict[str, list[dict]] = {}
    for row in comparison.gaps.to_dict("records"):
        gaps.setdefault(row["claim"], []).append(_gap(row))
    shown = []
    for row in _text(comparison.verdicts).to_dict("records"):
        verdicts = tuple(_verdict(row, scope) for scope in SHOWN if scope in row)
        predicates = [predicate(source.claims.get(row["id"], {}), scope) for scope in SCOPES]
        named = {kind: indices(facets, kind, mentioned(predicates, kind)) for kind in FACETS}
        behind = tuple(gaps.get(row["id"], ()))
        section = source.claims.get(row["id"], {}).get("section", "")
        texts = (row["id"], row["claim"], row["source"])
        shown.append(Claim(*texts, verdicts, behind, named, section))
    return shown


def mentioned(predicate, key: str) -> set[str]:
    """Return every value of `key` in a claim's predicate, for example all models that it names."""
    if isinstance(predicate, list):
        return set().union(*(mentioned(part, key) for part in predicate))
    if not isinstance(predicate, dict):
        return set()
    here = predicate.get(key, [])
    inner = mentioned([value for name, value in predicate.items() if name != key], key)
    return inner | {str(value) for value in (here if isinstance(here, list) else [here])}


def facets(sources: list[Source]) -> Facets:
    """Return the names of all models, methods and benchmarks that the page can be filtered by."""
    names: dict[str, set[str]] = {kind: set() for kind in FACETS}
    for source in sources:
        for kind, known in names.items():
            known |= mentioned(list(source.claims.values()), kind)
            if kind != "benchmark":
                known |= {getattr(row, kind) for row in source.reruns}
            if source.comparison:
                for frame in (source.comparison.cells, source.comparison.summary):
                    known |= set(_text(frame[[kind]])[kind])
    return {
        kind: {name: i for i, name in enumerate(sorted(known - {""}, key=_by_name))}
        for kind, known in names.items()
    }


def _by_name(name: str) -> tuple[str, str]:
    """Sort key that ignores case, with a fixed order for Math500 and MATH500 so that the page's
    bytes do not vary."""
    return name.lower(), name


def indices(facets: Facets, kind: str, names) -> str:
    """Return the names as numbers, in the form of a data- attribute."""
    return " ".join(str(i) for i in sorted(facets[kind][name] for name in names if name))


def published(source: Source) -> list[Table]:
    """Return the paper's tables, with the rerun number in each cell that has one."""
    comparison = source.comparison
    captions = {name: caption for name, caption, _ in comparison.spec.published}
    tables = []
    for one in layout.tables(comparison.cells, comparison.gains):
        title = captions.get(one.name) or one.title
        cells = [(*where, _printed(entry)) for *where, entry in layout.flat(one)]
        tables.append(_table(one.name, PUBLISHED, title, cells, one.counts))
    return tables


def rerun(source: Source) -> list[Table]:
    """Return the tables of reruns, one for each scope and table."""
    summary = source.comparison.summary
    chosen = set(source.comparison.spec.laptop.values())
    found = source.comparison.replicated
    tables = [
        _table(one.name, "replication", one.title, _replicated(one), one.counts)
        for one in (replication.tables(found, source.comparison.spec) if len(found) else ())
    ]
    summary = summary[summary["scope"] != PUBLISHED]
    for (scope, name), frame in summary.groupby(["scope", "table"], sort=False):
        rows = [
            (row["model"], row["method"], (row["benchmark"], row["metric"]), _rerun(row))
            for row in layout.objects(frame)
            if scope not in (LAPTOP, OWN) or (row["benchmark"], row["metric"]) in chosen
        ]
        columns = source.comparison.spec.laptop.values()
        if rows:
            title = str(name).replace("_", " ") + ", your own rerun" * (scope == OWN)
            tables.append(_table(name, scope, title, rows, Counter(), columns))
    return tables


def tidy(value: float, unit: str) -> str:
    """Format a mean: one decimal for percent, else two."""
    return "" if value == "" else f"{value:.1f}" if unit == "percent" else f"{value:.2f}"


def split(text: str) -> tuple[str, ...]:
    """Split a text at ";" and drop empty parts."""
    return tuple(part for part in str(text).split(";") if part)


def slug(*parts: object) -> str:
    """Return an HTML anchor of letters, digits, - and _ only."""
    return "-".join(re.sub(r"[^A-Za-z0-9_]+", "-", str(part)).strip("-") for part in parts)


def _verdict(row: dict, scope: str) -> Verdict:
    numbers, state = row[f"{scope}_numbers"], row[f"{scope}_state"]
    if row[scope] in ("", "not claimed here"):
        return Verdict(scope, "not claimed here", "absent", "", "", ())
    runs = split(row[f"{scope}_runs"])
    return Verdict(scope, row[scope], mark(row[scope], state), numbers, state, runs)


def _gap(row: dict) -> dict:
    """Format a comparison behind a verdict. Its sides are named without what the columns say."""
    keep = ("scope", "table", "benchmark", "metric", "a", "b", "verdict")
    texts = {key: "" if pd.isna(row[key]) else str(row[key]) for key in keep}
    sides = [SAID.sub("", texts[side]).strip(", ") for side in ("a", "b")]
    if len({*sides, ""}) == 3 or (sides[0] and not texts["b"]):
        texts |= dict(zip(("a", "b"), sides, strict=True))
    for key in ("difference", "mdd", "p_holm", "p_bh", "subsampling_p"):
        texts[key] = "" if pd.isna(row[key]) else f"{row[key]:.3g}"
    for key, name in (("interval", ""), ("seeds", "seed_"), ("problems", "prompt_")):
        low, high = row[f"{name}low"], row[f"{name}high"]
        texts[key] = "" if pd.isna(low) or pd.isna(high) else f"{low:.3g} to {high:.3g}"
    for key in ("n_seeds", "n_problems"):
        texts[key] = "" if pd.isna(row[key]) else f"{row[key]:g}"
    return texts


def _printed(entry: layout.Entry) -> Cell:
    """Return a published cell with its rerun and the rerun's gain."""
    row, value, again = entry.row, entry.lines["printed"], entry.lines["rerun"].rstrip("≠~!")
    lines = []
    if again:
        between = [tidy(row[key], row["unit"]) for key in ("low", "high")]
        whole = f"{again} [{between[0]}, {between[1]}]" if all(between) else again
        sizes = [
            f"{row[f'n_{what}']:g} {what}"
            for what in ("seeds", "problems")
            if row[f"n_{what}"] != ""
        ]
        lines += [("rerun", f"{whole} ({', '.join(sizes)})" if sizes else whole)]
        if row["difference"] != "":
            lines += [("difference", f"{row['difference']:+.3g}")]
        if entry.gain:
            lines += _gain_lines(entry)
    if row["reason"] and (again or row["verdict"] != "not run"):
        lines += [("why", row["reason"])]
    lines = [("published", f"{value} {row['unit']}"), *lines] if lines else []
    return Cell(
        value,
        again,
        entry.lines["gain"],
        mark(row["verdict"], row["state"]),
        row["verdict"],
        row["state"],
        tuple(lines),
        split(row["notes"]),
        split(row["run_ids"]),
    )


def _gain_lines(entry: layout.Entry) -> list[tuple[str, str]]:
    """Return the lines on the gain that a cell shows when the reader clicks on it."""
    gain = entry.gain
    between = [tidy(gain.get(key, ""), gain["unit"]) for key in ("low", "high")]
    said = entry.lines["gain"] + (f" [{between[0]}, {between[1]}]" if all(between) else "")
    said += f", printed {gain['printed']:+.3g}" if gain.get("printed", "") != "" else ""
    lines = [(f"gain over {gain['baseline']}", said)]
    if gain.get("p_samples", "") != "":
        lines.append(("p, samples drawn again (App. I)", f"{gain['p_samples']:.2g}"))
    return [*lines, ("the gain", gain["verdict"])]


def _replicated(table: layout.Table) -> list[tuple[str, str, layout.Column, Cell]]:
    """Return cells with the stored number, the user's own below it, and their difference."""
    found = []
    for model, method, column, entry in layout.flat(table):
        row, (stored, own, gap) = entry.row, entry.lines.values()
        unit, seeds = row["unit"], ("n_stored", "n_own")
        between = [tidy(row[key], unit) for key in ("low", "high")]
        lines = (
            ("stored, your own", f"{stored}, {own.rstrip('≠?')}"),
            ("seeds", ", ".join(f"{row[key]:g}" for key in seeds)),
            ("difference", gap + (f" [{between[0]}, {between[1]}]" if all(between) else "")),
        )
        word = row["verdict"]
        cell = Cell(stored, own, gap, MARKS[word], word, "", lines, (), ())
        found.append((model, method, column, cell))
    return found


def _rerun(row: dict) -> Cell:
    """Return a cell with the mean of a rerun over its seeds."""
    text, error = tidy(row["value"], row["unit"]), tidy(row["stderr"], row["unit"])
    text += f" ± {error}" if error else ""
    seeds = "" if row["n_seeds"] == "" else f"{row['n_seeds']:g}"
    lines = (("mean ± standard error over seeds", text), ("seeds", seeds))
    kind = "grey" if row["state"] in GREY else "plain"
    return Cell(text, "", "", kind, "", row["state"], lines, (), split(row["run_ids"]))


def _table(name, scope, title, cells, counts, order=()) -> Table:
    """Arrange cells (model, method, column, Cell) as a table."""
    columns, bodies = layout.arranged(cells, order)
    rows = tuple(
        (model, tuple(Row(model, method, tuple(map(line.get, columns))) for method, line in lines))
        for model, lines in bodies
    )
    return Table(str(name), scope, title, columns, rows, counts)


def _text(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(object).where(frame.notna(), "").astype(str)
