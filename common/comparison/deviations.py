"""The deviations of each cluster row from its paper, as a section of the paper's README (`make
docs`).

The section lists each printed table, and each sweep of a figure, with the configurations that fill
it, then every printed setting (published/hyperparameters.csv) that differs from ours, and in which
rows. What the paper does not print is a choice, and choices are in the README's own table.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from common.backends.printed import EvalSampling, beside
from common.comparison.published import (
    naming_runs,
    order,
    other_names,
    published,
    reruns_of,
)
from common.config.compose import compose
from common.config.files import ROOT, papers
from common.config.strict import strict
from common.datasets.prompts import stated
from common.datasets.templates import INSTRUCTIONS
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.results.tables import replaced
from common.sweeps.plan import Reproduce, Sweep, evaluations_of, runs_of

PAPERS = [name for name in papers() if (ROOT / "papers" / name / "README.md").exists()]
SHOWN = 4  # rows that a deviation names
DRAW = ", draw "  # in the name of a benchmark that is drawn several times


class Planned(NamedTuple):
    scale: str
    run: Experiment
    sampled: EvalSampling | None
    differs: list[str]
    compared: set[str]  # printed settings


def planned(paper: str) -> list[Planned]:
    """Return every cluster or GPU run of a printed table or figure, with its deviations from it."""
    config = strict(Reproduce, compose(paper, [], "reproduce"))
    tables = set(published(ROOT / "papers" / paper / "published")["table"])
    tables |= set(other_names(naming_runs(paper))["of_table"])
    found: dict[str, Planned] = {}
    for scale in config.scales:
        if scale.startswith("cluster") or scale == "gpu":
            one = replace(config, scale=scale)
            for sweep in one.sweeps:
                known = sweep.table in tables or sweep.table.startswith("table_fig")
                for run, sampled in sampled_runs(one, sweep) if known else ():
                    rows = beside(run, sampled)
                    differs = [row.difference for row in rows if row.same is False]
                    said = {row.row["parameter"] for row in rows if row.same is not None}
                    found.setdefault(run.run_id, Planned(scale, run, sampled, differs, said))
    return list(found.values())


def sampled_runs(
    config: Reproduce, sweep: Sweep
) -> Iterator[tuple[Experiment, EvalSampling | None]]:
    """Yield the runs of a sweep's first seed with their evaluation settings; None without one."""
    runs = runs_of(config, replace(sweep, seeds=sweep.seeds[:1]))
    jobs: dict[tuple, list[Evaluate]] = {}
    for e in evaluations_of(runs, sweep) if sweep.benchmarks else ():
        jobs.setdefault((e.label, e.row.method), []).append(e)
    for run in runs:
        mine = jobs.get((run.model.name, run.label))
        yield run, sampled_of(mine) if mine else None


def sampled_of(jobs: list[Evaluate]) -> EvalSampling:
    e = jobs[0]
    draws = {one.row.benchmark for one in jobs if DRAW in one.row.benchmark}
    count = len(draws) // max(1, len({name.split(DRAW)[0] for name in draws}))
    sets = {}
    for one in jobs:
        asked = INSTRUCTIONS[one.eval.prompts["instruction"]]
        sets[one.row.benchmark.split(DRAW)[0]] = {
            "problems": stated(one.eval.prompts),
            "max_tokens": one.max_tokens,
            "temperature": one.temperature,
            "system": asked({"problem": "", "options": []})[0],
            "chat": one.eval.prompts["chat"],
        }
    drawn = (128, count) if draws else None  # 128 questions: configs/eval/arc_challenge.yaml
    at = sorted({one.row.checkpoint for one in jobs if isinstance(one.row.checkpoint, int)})
    return EvalSampling(e.n, e.temperature, e.top_p, e.max_tokens, drawn, tuple(at), sets)


def section(paper: str) -> str:
    """Return the generated part of papers/<paper>/README.md."""
    rows = planned(paper)
    listed = list(dict.fromkeys(one for row in rows for one in row.differs))
    numbers = {one: i for i, one in enumerate(listed, 1)}
    lines = ["", *items(paper, rows, numbers), "", "Deviations from what is printed:", ""]
    for one, number in numbers.items():
        lines.append(f"{number}. {one}. {named(rows, one)}.")
    if not listed:
        lines.append(f"{_none(rows)}.")
    return "\n".join([*lines, "", ""])


def named(rows: list[Planned], difference: str) -> str:
    """Return, as text, the rows that have a deviation."""
    mine = [row for row in rows if difference in row.differs]
    of_clusters = sum(row.scale.startswith("cluster") for row in rows)
    if len(mine) == of_clusters:
        return "All rows" if of_clusters == len(rows) else "All rows of a cluster"
    return f"Rows {_some(mine)}"


def items(paper: str, rows: list[Planned], numbers: dict[str, int]) -> Iterator[str]:
    """Yield a markdown table with one line per printed table and per sweep of a figure."""
    yield "| item | printed rows with a configuration | deviations |"
    yield "| --- | --- | --- |"
    printed = published(ROOT / "papers" / paper / "published")
    tables = {table: cells for table, cells in printed.groupby("table")}
    figures = {row.run.table for row in rows} - {*tables}
    figures -= set(other_names(naming_runs(paper))["of_table"])
    for table in sorted([*tables, *figures], key=order):
        cells = tables.get(table, printed[:0])
        wanted = [
            reruns_of(paper, part)
            for _, part in cells.groupby(["model", "method"], sort=False, dropna=False)
        ]
        if table in figures:
            wanted = [{(table, row.run.name)} for row in rows if row.run.table == table]
        filled = [[x for x in rows if (x.run.table, x.run.name) in runs] for runs in wanted]
        fills = list({id(one): one for some in filled for one in some}.values())
        many = sum(map(bool, filled))
        by = f", by {len(fills)} configurations" if len(fills) > many else ""
        about = f"{many} of {len(wanted)}" + (f"{by}: {_some(fills)}" if fills else "")
        differs = sorted({numbers[one] for row in fills for one in row.differs})
        shown = ", ".join(map(str, differs)) or (_none(fills) if fills else "")
        yield f"| {table} | {about} | {shown} |"


def _none(rows: list[Planned]) -> str:
    return f"none of {len(set().union(*(row.compared for row in rows)))} settings"


def _some(rows: list[Planned]) -> str:
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return ", ".join(f"`{row.run.name}`" for row in rows[:SHOWN]) + more


def readme(paper: str) -> tuple[Path, str]:
    """Return (the README file, its text with the section made anew)."""
    path = ROOT / "papers" / paper / "README.md"
    return path, replaced(path, "deviations", section(paper))
