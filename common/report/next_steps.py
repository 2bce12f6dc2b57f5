"""The one command that would settle most of a paper's open headline claims, and its cost.

On a laptop the command runs more seeds: as many as would show the difference that was seen in 80 %
of repetitions. (This takes the smallest detectable difference of gaps.csv and shrinks the part of
its variance that comes from seeds.) Where seeds cannot settle a claim, the command runs the paper's
own rows on a cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

from common.report.answers import CLUSTER, LAPTOP, Answer
from common.report.reruns import Rerun
from common.report.reruns import command as typed
from common.sweeps.cost import Range

MOST = 40  # seeds: more are no plan
METHOD = re.compile(
    r"method=(.+?)(?=, (?:table|model|benchmark|metric|k|seed|step)=| and table=|$)"
)


@dataclass(frozen=True)
class Step:
    """A command to run next."""

    why: str
    command: str
    cost: str


def next_step(
    answer: Answer,
    claims: dict[str, dict],
    gaps: pd.DataFrame,
    reruns: list[Rerun],
    prices: pd.DataFrame,
) -> Step | None:
    """Return the step that settles the most open headline claims, or None where none is open."""
    waiting = [
        (head.id, one)
        for head in answer.headlines
        for one in head.findings
        if one.scope == LAPTOP and one.word == "inconclusive"
    ]
    plans = []
    for name, _ in waiting:
        rows = gaps[(gaps["claim"] == name) & (gaps["scope"] == LAPTOP)]
        needed = [seeds_needed(row, null(claims.get(name, {}))) for row in rows.to_dict("records")]
        of = [row for row in reruns if _behind(row, rows)]
        if needed and of and all(needed):
            plans.append((name, max(needed), {(row.table, row.overrides) for row in of}, of))
    if plans:
        return _more_seeds(answer, waiting, plans)
    return _at_size(answer, len(waiting), prices)


def seeds_needed(row: dict, null: float = 0.0) -> int | None:
    """Return the number of seeds that would show a difference as large as `row`'s in 80 % of
    repetitions, before any correction over claims.

    None where the noise over problems alone hides the difference, or where nothing is known.
    """
    n, mdd, distance = row["n_seeds"], row["mdd"], abs(row["difference"] - null)
    if pd.isna(n) or pd.isna(mdd) or distance == 0:
        return None
    widths = [row["seed_high"] - row["seed_low"], row["prompt_high"] - row["prompt_low"]]
    over_seeds, over_problems = (0 if pd.isna(width) else width**2 for width in widths)
    share = over_seeds / (over_seeds + over_problems) if over_problems else 1.0
    left = (distance / mdd) ** 2 - (1 - share)
    if left <= 0:
        return None
    needed = int(-(-n * share // left))
    return max(needed, int(n) + 1) if needed <= MOST else None


def null(claim: dict) -> float:
    """Return the value that the difference of a laptop predicate is tested against."""
    body = claim.get(LAPTOP) or {}
    margin = body.get("margin", 0) * (1 if body.get("relation", ">") == ">" else -1)
    inner = next((x for x in body.values() if isinstance(x, dict) and "value" in x), {})
    return inner.get("value", margin)


def _behind(row: Rerun, gaps: pd.DataFrame) -> bool:
    """Return whether this row of a sweep is one side of one of the comparisons."""
    if row.scope != LAPTOP:
        return False
    for gap in gaps.to_dict("records"):
        sides = f"{gap['a']} and {gap['b']}"
        if str(gap["table"]).startswith(row.table) and row.method in METHOD.findall(sides):
            return True
    return False


def _more_seeds(answer: Answer, waiting: list, plans: list) -> Step:
    """Return one command, for the table whose extra seeds settle the most claims."""
    groups: dict[tuple, list] = {}
    for plan in plans:
        for key in plan[2]:
            groups.setdefault(key, []).append(plan)
    (table, overrides), chosen = max(groups.items(), key=lambda item: (len(item[1]), str(item[0])))
    rows = {
        row.experiment: row
        for *_, of in chosen
        for row in of
        if (row.table, row.overrides) == (table, overrides)
    }
    most = max(plan[1] for plan in chosen)
    seeds = list(range(1, most + 1))
    words = [f"experiment={','.join(rows)}", f"table={table}", *overrides]
    cost = "cost not known"
    if all(row.cost for row in rows.values()):
        each = [(row.cost.low / row.seeds, row.cost.high / row.seeds) for row in rows.values()]
        hours = Range(*(len(seeds) * sum(ends) for ends in zip(*each, strict=True)))
        cost = f"at most {hours} hours of one core, predicted, not measured; "
        cost += "what is finished is not run again"
    many = f"{len(chosen)} of {len(waiting)}" if len(waiting) > 1 else "the"
    why = (
        f"would settle {many} headline claim{'s' if len(waiting) > 1 else ''} left open on the "
        f"laptop, if the differences are as large as seen ({most} seeds in all; 80 % power before "
        "the correction over claims)"
    )
    return Step(why, typed(answer.paper, words, seeds, "local"), cost)


def _at_size(answer: Answer, waiting: int, prices: pd.DataFrame) -> Step | None:
    """Return the command for the paper's own rows, with the dry run's prices of all they share."""
    rows = prices[prices["scope"] == CLUSTER]
    if rows.empty:
        return None
    hours = Range(rows["low"].sum(), rows["high"].sum())
    cost = f"{hours} GPU-hours and {Range(rows['disk_gb'].sum(), rows['disk_gb'].sum())} GB of disk"
    seeds = " (seeds cannot settle what is left open on the laptop)" if waiting else ""
    words = f"make reproduce-{answer.paper} SCALE=cluster CLUSTER={rows['where'].iloc[0]}"
    return Step(f"would run the paper's own rows{seeds}", words, f"{cost}, predicted, not measured")
