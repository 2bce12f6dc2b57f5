"""What a paper's rows take and what they could decide, as two tables for its readers.

`rlvr docs` writes them to results/reference/<paper>/: the page reads costs from there alone.
They are the dry run's and BUDGET's own numbers: predictions, of configs/cost.yaml's assumptions.
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

PROFILE = "h100-1x8"  # the default of `rlvr submit`, on which every row of the five papers fits
HERE, CLUSTER = "full", "cluster"  # scales: this machine's, the paper's own
ROWS = ["scope", "table", "experiment", "runs", "low", "high", "disk_gb", "where"]
CLAIMS = ["id", "rows", "gpu_hours", "power", "lacking"]


def write(paper: str, reference: Path) -> None:
    rows, claims = tables(paper)
    write_csv(reference / paper / "costs.csv", rows)
    write_csv(reference / paper / "budget.csv", claims)


def tables(paper: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(ROWS, CLAIMS). Of a row hours of all its runs: of one core on this machine; on a cluster of
    a GPU, with evaluations and measures, and a line without a row for each job that rows share."""
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
    """Each claim that printed cells decide: its rows, their GPU-hours (the middle of the range),
    and the power of its weakest comparison; or what it lacks."""
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
