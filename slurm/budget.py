"""The choice of rows for a budget of GPU-hours: those that decide the most of a paper's claims.

A row is a training run with its evaluations. The rows of a claim follow from the predicate that
judges it on a cluster (claims.file.predicate). Its selectors name table, model and method, and
match printed cells. Each cell stands for the row with that label, or for the rows that provide its
runs according to the paper's Spec (same_runs, joined). A selector of something that is logged or
not printed stands for the row with that label. A claim about the laptop or theory alone has no
rows. Rows that are done cost nothing.

The choice is greedy. Each round takes the claim whose missing rows fit into the hours left and
decide the most claims per GPU-hour. The hours are the middle of the predicted range, sqrt(low x
high): as likely too low as too high. A greedy choice need not be the best.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd
from scipy.special import ndtr, ndtri

from common.claims.file import CLUSTER, load, parse, predicate
from common.comparison.published import published
from common.comparison.spec import Spec, matches
from common.config.files import ROOT
from common.errors import UserError, require
from common.experiment import Experiment
from common.metrics.paired import detectable_share
from slurm import cost
from slurm.plan import EVALUATED, Job


@dataclass(frozen=True)
class Claim:
    """A claim that printed cells decide, with the trainings it needs, or why a run cannot decide
    it."""

    id: str
    rows: frozenset[str]  # keys of train jobs
    lacking: str  # why it cannot be decided; "" if all its rows are in the plan
    power: str  # of the test of its weakest comparison, with one run per cell


@dataclass(frozen=True)
class Choice:
    rows: list[str]  # keys of train jobs, in the order in which they were chosen
    decided: list[Claim]
    left: list[tuple[Claim, str]]  # undecided claims, and why
    spent: float  # GPU-hours, from the middle of each range


def given(word: str) -> float:
    """Return the number of GPU-hours in the argument budget=. Raises UserError unless it is above
    0."""
    try:
        hours = float(word)
    except ValueError:
        hours = math.nan
    require(
        math.isfinite(hours) and hours > 0,
        "budget",
        word,
        "give a number of GPU-hours above 0, as in BUDGET=200",
    )
    return hours


def row_of(job: Job) -> str:
    """Return the run id of the row that an evaluation belongs to."""
    return job.of.run_id if job.of else job.needs[0]


def rows_of(jobs: list[Job]) -> dict[str, Experiment]:
    """Return the rows of a plan by run id: the models that are trained, and the models that are
    evaluated without training."""
    trained = {job.key: job.config for job in jobs if job.kind == "train"}
    evaluated = {job.of.run_id: job.of for job in jobs if job.kind in EVALUATED and job.of}
    return evaluated | trained


def choose(
    claims: list[Claim], jobs: list[Job], outlook: cost.Outlook, done: set[str], hours: float
) -> Choice:
    """Choose rows whose GPU-hours sum to at most `hours`."""
    price = {key: middle(key, jobs, outlook, done) for key in rows_of(jobs)}
    open_ = [c for c in claims if not c.lacking and all(row in price for row in c.rows)]
    possible = [c for c in open_ if all(price[row] is not None for row in c.rows)]
    rows: list[str] = []
    spent = 0.0
    while True:
        offers = []
        for claim in possible:
            new = claim.rows - set(rows)
            needed = sum(price[row] for row in new)
            if new and spent + needed <= hours:
                has = claim.rows | set(rows)
                gain = sum(c.rows <= has and not c.rows <= set(rows) for c in possible)
                offers.append((gain / max(needed, 1e-9), sorted(new), needed))
        if not offers:
            break
        _, new, needed = max(offers, key=lambda offer: offer[0])
        rows += new
        spent += needed
    decided = [c for c in possible if c.rows <= set(rows)]
    left = [(c, _why(c, rows, price)) for c in claims if c not in decided]
    return Choice(rows, decided, left, spent)


def middle(key: str, jobs: list[Job], outlook: cost.Outlook, done: set[str]) -> float | None:
    """Return the GPU-hours of a training, its evaluations and the jobs that it waits for, which
    several rows may share. Jobs that are `done` count nothing. Return None if one of the jobs
    cannot run."""
    own = [
        name
        for job in jobs
        if job.key == key or (job.kind in EVALUATED and row_of(job) == key)
        for name in (job.key, *(job.needs if job.key == key else ()))
    ]
    if any(name in outlook.refused for name in own):
        return None
    known = {name: outlook.estimates[name].gpu_hours for name in own if name in outlook.estimates}
    ranges = [hours for name, hours in known.items() if name not in done]
    return math.fsum(math.sqrt(r.low * r.high) for r in ranges)


def _why(claim: Claim, rows: list[str], price: dict[str, float | None]) -> str:
    if claim.lacking:
        return claim.lacking
    if any(price.get(row) is None for row in claim.rows):
        return "a row of it cannot run on this profile"
    more = sum(price[row] or 0 for row in claim.rows - set(rows))
    return f"{more:,.0f} GPU-hours more"


def keep(jobs: list[Job], rows: list[str]) -> set[str]:
    """Return the keys of the chosen rows, of their evaluations, and of the jobs that these
    evaluations wait for. So the baseline of an evaluation is kept even if it was not chosen."""
    wanted = set(rows)
    own = [job for job in jobs if job.kind in EVALUATED and row_of(job) in wanted]
    return wanted | {job.key for job in own} | {key for job in own for key in job.needs}


def claims_of(spec: Spec, jobs: list[Job]) -> list[Claim]:
    """Return the claims of the paper that printed cells decide, with their rows among `jobs`."""
    home = ROOT / "papers" / spec.paper
    printed = published(home / "published")
    trained = {(x.table, x.model.name, x.label): key for key, x in rows_of(jobs).items()}
    baseline: dict[str, set[str]] = {}
    for job in jobs:
        if job.kind in EVALUATED:
            others = {key for key in job.needs if key in trained.values()}
            baseline.setdefault(row_of(job), set()).update(others)
    found = []
    for claim in load(home / "claims.yaml"):
        judged = predicate(claim, CLUSTER)
        if judged is None:
            continue
        form, body, selectors = parse(f"{claim['id']}: {CLUSTER}", judged)
        cells = [_cells(printed, _columns(selector)) for selector in selectors]
        rows, lacking = _rows(spec, cells, selectors, trained)
        rows |= {key for row in rows for key in baseline.get(row, ())}
        sides = _pairs(form, selectors, cells)
        null = body.get("margin", 0) * (-1 if body.get("relation") == "<" else 1)
        power = _power(spec, sides, null)
        found.append(Claim(claim["id"], frozenset(rows), lacking, power))
    return found


def _columns(selector: dict) -> dict:
    return {key: value for key, value in selector.items() if value is not None}


def _cells(printed: pd.DataFrame, columns: dict) -> pd.DataFrame:
    """Return the printed cells that a selector names; none if it asks for something that is not
    printed, such as a step."""
    return printed[matches(printed, columns)] if columns.keys() <= set(printed) else printed[:0]


def _rows(
    spec: Spec, cells: list[pd.DataFrame], selectors: list[dict], trained: dict
) -> tuple[set[str], str]:
    """Return (the trainings behind the printed cells, what is missing of them or "")."""
    same = {(one.table, one.method): {(one.of_table, one.of_method)} for one in spec.same_runs}
    for one in spec.joined:
        same.setdefault((one.table, one.method), set()).update(one.of)
    rows = set()
    for frame, selector in zip(cells, selectors, strict=True):
        if frame.empty:
            own = _unprinted(selector, trained)
            if not own:
                return set(), f"no printed cell and no row is {_described(selector)}"
            rows |= own
        for table, model, method in frame[["table", "model", "method"]].drop_duplicates().values:
            of = same.get((table, method), {(table, method)})
            keys = {trained.get((of_table, model, of_method)) for of_table, of_method in of}
            if None in keys:
                return set(), f"this scale does not train {method} ({model}) of {table}"
            rows |= keys
    return rows, ""


def _unprinted(selector: dict, trained: dict) -> set[str]:
    """Return the trainings named by a selector that matches no printed cell: it asks for what they
    logged, or for a set that the paper does not print."""
    asked = {**selector, "table": str(selector.get("table")).partition(", ")[0]}
    return {
        key
        for one, key in trained.items()
        if all(
            value == asked.get(name, value)
            for name, value in zip(("table", "model", "method"), one, strict=True)
        )
    }


def _described(selector: dict) -> str:
    return ", ".join(f"{key} {value}" for key, value in selector.items())


def _pairs(form: str, selectors: list[dict], cells: list[pd.DataFrame]) -> list[tuple]:
    if form == "range":
        return []
    both = list(zip(selectors, cells, strict=True))
    return (
        list(pairwise(both)) if form == "order" else list(zip(both[::2], both[1::2], strict=False))
    )


def _power(spec: Spec, pairs: list[tuple], null: float) -> str:
    """Return the power of the weakest comparison, in words. With one run per cell, the test is over
    problems (F-GRPO App. I). Each problem counts as answered once, so the power is a lower bound
    for a cell with many samples."""
    weakest: tuple[float, float, float] | None = None
    for (selector, a), (_, b) in pairs:
        gap = a["value"].mean() - b["value"].mean() - null
        share = (a["value"].mean() + b["value"].mean()) / 200
        least = _detectable(spec, selector.get("benchmark"), a, share)
        if least is None or not math.isfinite(gap):
            return "power not known"
        power = float(ndtr(abs(gap) / least * (ndtri(0.975) + ndtri(0.8)) - ndtri(0.975)))
        weakest = min(weakest or (power, gap, least), (power, gap, least))
    if weakest is None:
        return "power not known"
    power, gap, least = weakest
    return (
        f"printed {gap:+.1f}, 80 % power from {least:.1f} points: power {100 * power:.0f} % or more"
    )


def _detectable(spec: Spec, benchmark, cells: pd.DataFrame, share: float) -> float | None:
    """Return the smallest gap, in points, that the test detects with 80 % power. For an average it
    follows from the problems of its benchmarks. Return None where their numbers are not known."""
    names = [benchmark] if isinstance(benchmark, str) else list(cells["benchmark"].unique())
    sets = [one for name in names for one in spec.averages.get(name, [name])]
    problems = [spec.problems.get(name) for name in sets]
    if not problems or None in problems or not 0 <= share <= 1:
        return None
    each = [detectable_share(share, many) for many in problems]
    return 100 * math.sqrt(sum(one**2 for one in each)) / len(each)


def text(choice: Choice, hours: float, outlook: cost.Outlook, jobs: list[Job]) -> list[str]:
    """Return lines that say what was chosen and what was not. Raises UserError if nothing was
    chosen."""
    if not choice.rows:
        cheapest = [why for claim, why in choice.left if not claim.lacking]
        raise UserError(
            f"budget={hours:g}: decides no claim of this scale on this profile; "
            f"{_least(cheapest)}give more, or another profile or scale"
        )
    kept = keep(jobs, choice.rows)
    sums = cost.total([e for key, e in outlook.estimates.items() if key in kept])
    lines = [
        f"BUDGET of {hours:g} GPU-hours (the middle of each predicted range, sqrt(low x high)): "
        f"{len(choice.rows)} row(s), {choice.spent:,.0f} GPU-hours, {sums.gpu_hours} at the ends",
        *(f"  row    {row}" for row in choice.rows),
        f"{len(choice.decided)} claim(s) have all their rows; one run a cell, so the test is over "
        "problems (F-GRPO App. I) and blind to the spread over seeds:",
        *(f"  claim  {claim.id}: {claim.power}" for claim in choice.decided),
        f"{len(choice.left)} claim(s) with printed cells stay undecided:",
        *(f"  left   {claim.id}: {why}" for claim, why in choice.left),
    ]
    others = [key for key in rows_of(jobs) if key not in kept]
    return [*lines, f"{len(others)} row(s) are left out:", *(f"  left   {key}" for key in others)]


def _least(reasons: list[str]) -> str:
    needed = [float(why.split()[0].replace(",", "")) for why in reasons if why[0].isdigit()]
    return f"the cheapest claim needs {min(needed):,.0f} GPU-hours; " if needed else ""
