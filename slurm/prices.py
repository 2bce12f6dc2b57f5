"""Two tables for the readers of a paper: what its rows (experiments) cost, and which claims they
could decide.

`rlvr docs` writes them to results/reference/<paper>/, the only place that the page reads costs
from. The numbers are those of the dry run and of budget=, so they are predictions from the
assumptions in configs/cost.yaml.
"""

from pathlib import Path

import pandas as pd

from common.comparison.spec import spec_of
from common.results.files import write_csv
from common.sweeps.plan import experiments
from common.sweeps.profiles import load_profile, on
from slurm import budget, cost, plan
from slurm.launch import tables_of
from slurm.tables import asked_for, chosen

PROFILE = "h100-1x8"  # the default profile of a Table; every row of the five papers fits on it
HERE, CLUSTER = "full", "cluster"  # scales: one for this machine, and the paper's own
ROWS = ["scope", "table", "experiment", "runs", "low", "high", "disk_gb", "where"]
CLAIMS = ["id", "rows", "gpu_hours", "power", "lacking"]


def write(paper: str, reference: Path) -> None:
    rows, claims = tables(paper)
    write_csv(reference / paper / "costs.csv", rows)
    write_csv(reference / paper / "budget.csv", claims)


def tables(paper: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return (ROWS, CLAIMS) as tables. The hours of a row are summed over all its runs. On this
    machine they are hours of one core; on a cluster they are GPU-hours and include evaluations and
    measures. A job that several rows share has a line of its own, with its key in place of a
    row."""
    found = chosen(paper, tables_of(paper), table="", row="", scale=CLUSTER, without="")
    profile = load_profile(PROFILE)
    runs = [on(x, profile, {}) for x in found.runs]
    jobs = plan.plan(runs, found.evaluations, found.commands, found.measures, found.gates)
    seen = cost.outlook(jobs, profile)
    rows = [*_here(paper), *_there(jobs, seen)]
    table = pd.DataFrame(rows, columns=ROWS)
    by = ["scope", "table", "experiment", "where"]
    summed = table.groupby(by, sort=False).sum().reset_index()[ROWS]
    return summed.round({"low": 3, "high": 3, "disk_gb": 3}), _claims(paper, jobs, seen)


def _here(paper: str) -> list[tuple]:
    local = load_profile("local")
    runs = experiments(asked_for(paper, HERE, ()))
    seen = cost.outlook(plan.plan(runs, []), local).estimates
    each = [(x, seen[x.run_id]) for x in runs]
    return [("laptop", x.table, x.name, 1, *_hours(e.hours), e.disk_gb, "local") for x, e in each]


def _there(jobs: list[plan.Job], seen: cost.Outlook) -> list[tuple]:
    lines = []
    for job in jobs:
        if job.key not in seen.estimates:
            continue
        e = seen.estimates[job.key]
        row = job.config if job.kind == "train" else job.of
        named = (
            (row.table, row.name) if row and job.kind not in ("rates", "gate") else ("", job.key)
        )
        whole = int(job.kind == "train")
        lines.append((CLUSTER, *named, whole, *_hours(e.gpu_hours), e.disk_gb, PROFILE))
    return lines


def _hours(one: cost.Range) -> tuple[float, float]:
    return one.low, one.high


def _claims(paper: str, jobs: list[plan.Job], seen: cost.Outlook) -> pd.DataFrame:
    """Return a line for each claim that printed cells decide: its rows, their GPU-hours (the middle
    of the range), and the power of its weakest comparison; or what it lacks."""
    price = {key: budget.middle(key, jobs, seen, set()) for key in budget.rows_of(jobs)}
    lines = []
    for claim in budget.claims_of(spec_of(paper), jobs):
        hours = [price[row] for row in claim.rows]
        known = round(sum(hours), 1) if hours and None not in hours else None
        names = ";".join(sorted(claim.rows))
        lines.append(
            (claim.id, names, known, claim.power if not claim.lacking else "", claim.lacking)
        )
    return pd.DataFrame(lines, columns=CLAIMS)
