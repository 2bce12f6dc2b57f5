"""From run folders to what is compared: gathered rows and counts, verdicts on claims, one table of
cells, rendered pages.

Nothing here reads more than result files: no model, no GPU, seconds.
"""

import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from common import claims
from common.claim_rows import COUNTED
from common.cli import ROOT, options
from common.errors import require
from common.matched import at_matched_accuracy
from common.results import COLUMNS, collect, read_csv, write, write_csv

LAPTOP = "laptop"
FORMATS = ("terminal", "md", "csv")
Columns = dict[str, tuple[str, str]]  # title -> (benchmark, metric)


@dataclass(frozen=True)
class Page:
    """What a paper's comparison consists of."""

    paper: str
    title: str
    published: list[tuple[str, str, Columns]]  # printed table, its caption, what is shown of it
    laptop: Columns
    pairs: list[tuple[str, str]]  # methods that are also compared at matched pass@1
    own_rows: Callable[[Path], list[pd.DataFrame]]  # of theory and simulation, as result rows


def command(page: Page, doc: str) -> None:
    """`python -m papers.<paper>.compare`."""
    chosen = options(doc, {"results_dir": "results", "format": "terminal"})
    require(chosen["format"] in FORMATS, "format", chosen["format"], f"use one of {FORMATS}")
    compare(page, Path(chosen["results_dir"]), chosen["format"])


def compare(page: Page, root: Path, form: str = "terminal") -> None:
    """Gather the finished runs, then print the comparison and write it as claims.{csv,md} and
    comparison.{csv,md}."""
    from rich.console import Console

    for reason in gather(root, page.paper, LAPTOP):
        print(f"left out: {reason}", file=sys.stderr)
    verdicts, scopes = evaluate(page, root)
    runs = {name: rows for name, rows in scopes.items() if name == "published"}
    rerun, _ = read(root, page.paper, LAPTOP)
    if len(rerun):
        runs[LAPTOP] = rerun
    table = cells(runs)
    text = render(page, verdicts, table)
    folder = root / page.paper
    write_csv(folder / "claims.csv", verdicts)
    write_csv(folder / "comparison.csv", table)
    write(folder / "comparison.md", text)
    if form == "terminal":
        Console().print(claims.to_terminal(verdicts))
        print(f"also in {folder}: claims.csv, comparison.csv, comparison.md")
    else:
        print(text if form == "md" else verdicts.to_csv(index=False, lineterminator="\n"), end="")


def evaluate(page: Page, root: Path) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """The verdicts, and the rows of each scope that they rest on."""
    rows, counts = read(root, page.paper, LAPTOP)
    tables = rows["table"].unique()
    matched = [at_matched_accuracy(rows, table, page.pairs) for table in tables]
    parts = [part for part in (rows, *matched, *page.own_rows(root)) if len(part)]
    home = ROOT / "papers" / page.paper
    scopes = {"published": published(home / "published")}
    if parts:
        scopes[LAPTOP] = pd.concat(parts, ignore_index=True)
    verdicts = claims.evaluate(claims.load(home / "claims.yaml"), scopes, {LAPTOP: counts})
    return verdicts, scopes


def render(page: Page, verdicts: pd.DataFrame, table: pd.DataFrame) -> str:
    """The comparison as markdown: claims, then the printed and the rerun tables."""
    parts = [f"# {page.title}: published and rerun\n", "## Claims\n", claims.to_markdown(verdicts)]
    for name, caption, columns in page.published:
        printed = table[(table["scope"] == "published") & (table["table"] == name)]
        parts += [f"\n## Published: {caption}\n", markdown(printed, columns)]
    rerun = table[table["scope"] == LAPTOP]
    for name in rerun["table"].unique():
        parts += [
            f"\n## Laptop: {name} (0.4 M parameters, Subset-Countdown; mean ± standard error over"
            " seeds)\n",
            "Another model and another task: these rows stand beside the published ones, never for"
            " them.\n\n",
            markdown(rerun[rerun["table"] == name], page.laptop),
        ]
    return "".join(parts)


def gather(root: Path, paper: str, scope: str) -> list[str]:
    """Write `<root>/<paper>/<scope>/metrics.csv` and `counts.csv.gz` from the finished run folders.

    Returns what was left out and why. Without run folders nothing is written, so tables that came
    without their runs (results/reference/) stay as they are.
    """
    rows, left_out = collect(root, paper, scope)
    if rows.empty:
        return left_out
    folder = root / paper / scope
    write_csv(folder / "metrics.csv", rows)
    counts = pd.concat([_counts(root / paper / name) for name in rows.run_id.unique()])
    text = counts.to_csv(index=False, lineterminator="\n")
    write(folder / "counts.csv.gz", gzip.compress(text.encode(), mtime=0))
    return left_out


def read(root: Path, paper: str, scope: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The gathered (rows, counts) of a scope; both empty if there are none."""
    folder = root / paper / scope
    if not (folder / "metrics.csv").exists():
        return pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=[*COUNTED, "n", "c"])
    counts = pd.read_csv(folder / "counts.csv.gz", dtype={"problem_id": str})
    return read_csv(folder / "metrics.csv"), counts


def runs(rows: pd.DataFrame) -> pd.DataFrame:
    """table, model, method, seed and last step of every run, by run_id."""
    first = rows.groupby("run_id", sort=False)[["table", "model", "method", "seed"]].first()
    return first.assign(step=rows.groupby("run_id", sort=False)["step"].max())


def published(folder: Path) -> pd.DataFrame:
    """All printed cells of a paper: the rows of `published/table*.csv`."""
    return pd.concat([pd.read_csv(path) for path in sorted(folder.glob("table*.csv"))])


def cells(rows: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a cell and scope: printed numbers as printed, reruns as mean over seeds at the last
    step.

    scope, table, model, method, benchmark, metric, k, value, unit, stderr (over seeds), n_seeds.
    """
    key = ["table", "model", "method", "benchmark", "metric", "k", "unit"]
    frames = []
    for scope, frame in rows.items():
        if "step" in frame:
            last = frame.groupby("run_id")["step"].transform("max")
            frame = frame[frame["step"] == last]
            grouped = frame.groupby(key, dropna=False, sort=False)["value"]
            frame = grouped.agg(value="mean", stderr="sem", n_seeds="size").reset_index()
        frames.append(frame.assign(scope=scope))
    columns = ["scope", *key[:-1], "value", "unit", "stderr", "n_seeds"]
    return pd.concat(frames, ignore_index=True).reindex(columns=columns)


def markdown(frame: pd.DataFrame, columns: Columns) -> str:
    """A pivot of `cells`: one line a method, one column for each title -> (benchmark, metric)."""
    lines = [["method", *columns], ["---", *["---:"] * len(columns)]]
    for method in frame["method"].drop_duplicates():
        own, line = frame[frame["method"] == method], [method]
        for benchmark, metric in columns.values():
            hit = own[(own["benchmark"] == benchmark) & (own["metric"] == metric)]
            line.append(_cell(hit.iloc[0]) if len(hit) else "")
        lines.append(line)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(row: pd.Series) -> str:
    digits = 2 if row["unit"] != "percent" else 1
    text = f"{row['value']:.{digits}f}"
    return text if pd.isna(row["stderr"]) else f"{text} ± {row['stderr']:.{digits}f}"


def _counts(run: Path) -> pd.DataFrame:
    """Every evaluation's counts of one run, with the columns that name it."""
    first = read_csv(run / "metrics.csv").iloc[0]
    frames = []
    for path in sorted((run / "eval").glob("step-?????-counts.csv")):
        frame = pd.read_csv(path, dtype={"problem_id": str})
        frame["step"] = int(path.name[5:10])
        frames.append(frame)
    counts = pd.concat(frames)
    for column in ("table", "model", "method", "seed"):
        counts[column] = first[column]
    return counts[[*COUNTED, "problem_id", "n", "c", "distinct"]]
