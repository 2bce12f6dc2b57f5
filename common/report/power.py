"""What share of its claims a rerun settles, by simulated reruns of the paper (power.csv)."""

from collections import Counter
from pathlib import Path

import pandas as pd

from common.claims.file import CLUSTER
from common.claims.judge import judge, load
from common.comparison.published import published, reruns_of
from common.comparison.spec import matches
from common.comparison.text import table_title
from common.config.files import REFERENCE, ROOT
from common.experiment import Experiment
from common.report.verdicts import simulated


def settled(paper: str, runs: list[Experiment], reference: Path = REFERENCE) -> pd.DataFrame:
    """Return the claims that hold in print by the cells that `runs` rerun, and that were
    simulated: claim, seeds, and `decided`, the share of reruns with so many seeds a row that
    decide the claim if the printed numbers are true, with the samples that the scale states."""
    there = {(x.table, x.name) for x in runs}
    home = ROOT / "papers" / paper
    cells = published(home / "published").dropna(subset=["run"]).groupby("run")
    cells = cells.filter(lambda of_run: reruns_of(paper, of_run) <= there)
    claims = judge(load(home / "claims.yaml"), {"published": cells})[0]
    found = simulated(reference / paper)
    holding = claims.loc[claims["published"] == "holds", "id"]
    return found[(found["n"] == 0) & found["claim"].isin(holding)]


def unread(paper: str, runs: list[Experiment]) -> list[str]:
    """Return the names of the rows of `runs` that neither a printed cell nor a claim is of."""
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
    """Return one line on the claims of `table` (empty: of the rows of `runs`) that a rerun settles,
    with as many seeds as the row that has the fewest; none where the runs train no cluster row or
    rerun no cells of a simulated claim. A line before it names the rows that nothing reads."""
    trained = [x for x in runs if x.scope == CLUSTER and x.optim.steps > 0]
    seeds = min(Counter(x.name for x in trained).values(), default=0)
    lines = []
    if names := unread(paper, trained):
        some = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
        lines = [f"unread: no claim and no printed cell is of {len(names)} of the rows ({some})"]
    found = settled(paper, runs, reference) if seeds else pd.DataFrame()
    if found.empty:
        return lines
    rows = "one seed per row settles" if seeds == 1 else f"{seeds} seeds per row settle"
    whose = " and ".join(map(table_title, table.split(","))) + "'s" if table else "these rows'"
    shares = found.loc[found["seeds"] == seeds, "decided"]
    if shares.empty:
        known = ", ".join(map(str, sorted(set(found["seeds"]))))
        return [*lines, f"power: {seeds} seeds per row were not simulated (known: {known})"]
    never = sum(shares == 0)
    return [
        *lines,
        f"power: if the printed numbers are true, {rows} {shares.sum():.2g} of {whose} "
        f"{len(shares)} claims on average; {never or 'none'} {'is' if never == 1 else 'are'} "
        "never settled",
    ]
