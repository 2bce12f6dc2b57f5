"""What a rerun recognises of its claims, by simulated reruns of the paper (power.csv)."""

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import CLUSTER, PUBLISHED, load
from common.claims.judge import judge
from common.comparison.calibrate import KINDS, NONE, TRUE, stored
from common.comparison.published import published, reruns_of
from common.comparison.spec import matches
from common.comparison.text import table_title
from common.config.files import REFERENCE, ROOT
from common.experiment import Experiment

TIMES = {1: "one seed per row recognises", 3: "three seeds per row recognise"}


def settled(paper: str, runs: list[Experiment], reference: Path = REFERENCE) -> pd.DataFrame:
    """Return power.csv's lines on claims that hold in print by the cells that `runs` rerun."""
    there = {(x.table, x.name) for x in runs}
    home = ROOT / "papers" / paper
    cells = published(home / "published").dropna(subset=["run"]).groupby("run")
    cells = cells.filter(lambda of_run: reruns_of(paper, of_run) <= there)
    claims = judge(load(home / "claims.yaml"), {PUBLISHED: cells})[0]
    found = stored(paper, reference)
    return found[found["claim"].isin(claims.loc[claims[PUBLISHED] == "holds", "id"])]


def unread(paper: str, runs: list[Experiment]) -> list[str]:
    """Return the names of those rows of `runs` that no printed cell and no claim refers to."""
    home = ROOT / "papers" / paper
    printed = reruns_of(paper, published(home / "published").dropna(subset=["run"]))
    named = [(x.table, x.model.name, x.label) for x in runs]
    rows = pd.DataFrame(named, columns=["table", "model", "method"])
    read = pd.Series([(x.table, x.name) in printed for x in runs], dtype=bool)
    forms = [claim.cluster for claim in load(home / "claims.yaml") if claim.cluster]
    for selector in (one for form in forms for one in form.selectors if "method" in one):
        read |= matches(rows, {key: selector[key] for key in rows if key in selector})
    return sorted({x.name for x, known in zip(runs, read, strict=True) if not known})


def power(paper: str, runs: list[Experiment], table: str, reference: Path = REFERENCE) -> list[str]:
    """Return a line on the claims of `table` (empty: of these rows) that a rerun recognises, with
    as many seeds as the row with the fewest. A line before it names the rows that nothing reads."""
    trained = [x for x in runs if x.scope == CLUSTER and x.optim.steps > 0]
    seeds = min(Counter(x.name for x in trained).values(), default=0)
    lines = []
    if names := unread(paper, trained):
        some = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
        lines = [f"unread: no claim or printed cell uses {len(names)} of the rows ({some})"]
    found = settled(paper, runs, reference) if seeds else pd.DataFrame()
    if found.empty:
        return lines
    mine = found[found["seeds"] == seeds]
    if mine.empty:
        known = ", ".join(map(str, sorted(set(found["seeds"]))))
        return [*lines, f"power: {seeds} seeds per row were not simulated (known: {known})"]
    whose = " and ".join(map(table_title, table.split(","))) + "'s" if table else "these rows'"
    rows = TIMES.get(seeds, f"{seeds} seeds per row recognise")
    true = mine.loc[mine["world"] == TRUE, "holds"]
    false = mine.loc[(mine["world"] == NONE) & ~mine["truth"].isin(KINDS), "holds"]
    said = (
        f"power: if the printed numbers are true, {rows} {true.sum():.2g} of {whose} {len(true)} "
        f"claims on average; if no method works, {false.sum():.2g} of the {len(false)} that are "
        "false then"
    )
    return [*lines, said]
