"""Claims are data: `papers/<p>/claims.yaml`, a list of sentences with one predicate a scope.

    - id: focal-pass256
      claim: Focal weighting raises GRPO's pass@256
      source: Table 1
      published: {order: [{method: F-GRPO}, {method: GRPO}], relation: ">", where: {k: 256, ...}}
      laptop: ...                        # a scope that is left out is not part of that scale
      cluster: ...                       # left out: as `published`; null: no run can decide it

A selector (SEL) is a map of column to value (table, model, method, benchmark, metric, k, unit,
seed, step, run_id); a list of values means the plain average over them, null the empty cell.
Without `step` the last step of each seed counts. `where` is merged into every selector of its
predicate. The predicates:

    order: [SEL, SEL, ...]  with  relation: ">" | "<"  and  margin: points (0 if left out)
    difference: {a: SEL, b: SEL, relation: "~" | ">" | "<", value: x, within: y}
                                                                    a - b against x
    range: {of: SEL, low: x, high: y}                               one bound may be left out
    count: {pairs: [[SEL, SEL], ...], relation: ">" | "<", at_least: n}
    mean_gain: {pairs: [[SEL, SEL], ...], relation: "~" | ">" | "<", value: x, within: y}
                                                                    mean of first - second against x

"~" reads |difference - x| <= within. Verdicts: holds, fails, inconclusive, not run. Rows without a
seed (printed numbers, closed forms) are compared as numbers; a tie is inconclusive. Rows with seeds
are compared by the 95 % interval of `two_way_interval`: over seeds and problems where the counts of
every selected row are given (metrics pass@k and avg@k), else over seeds alone, which takes the
problems as fixed. Selectors with the same seeds are paired by seed. With fewer than three seeds
nothing is decided on a laptop. On a cluster, where the papers have one run a cell, such rows are
compared as numbers, as the printed ones are, and every text and GAPS's `test` says so, with the
p-values of two tests of single runs: over problems (`paired.over_problems`) and, with the problems
fixed, over samples (F-GRPO App. I). Neither sees the spread over seeds.

A cluster selector of a printed average speaks of its benchmarks (`averages`), whose problems are
what such a test is over.

A comparison by > or < holds when it lies on the claimed side with p < 0.05, fails when it lies on
the other with p < 0.05, and is inconclusive otherwise. p has Holm's correction over all such
comparisons of all claims of the scope that read the same table (its readings at matched pass@1, of
all pairs of methods, are one table more); intervals shown are not corrected. An order holds when
all its links hold and fails when one fails. "~" and range hold when the whole interval lies inside.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd

from common.claims.file import CLUSTER, SCOPES, load, parse, predicate
from common.claims.gaps import (
    GAPS,
    Gap,
    combine,
    interval_text,
    order_text,
    power_text,
    row,
    single_text,
)
from common.claims.select import Found, Missing, select, tidy, words
from common.metrics.bootstrap import holm

__all__ = ["GAPS", "SCOPES", "judge", "load", "verdicts"]


@dataclass(frozen=True)
class Measured:
    """A predicate with the numbers it is decided on."""

    form: str
    body: dict
    values: list[Found]
    gaps: list[Gap]
    null: float | None  # the gaps are tested against it; None: an interval has to lie inside


def verdicts(
    claims: list[dict],
    rows: dict[str, pd.DataFrame],
    counts: dict[str, pd.DataFrame] | None = None,
    averages: dict[str, list[str]] | None = None,
) -> pd.DataFrame:
    """The verdicts of `judge`."""
    return judge(claims, rows, counts, averages)[0]


def judge(
    claims: list[dict],
    rows: dict[str, pd.DataFrame],
    counts: dict[str, pd.DataFrame] | None = None,
    averages: dict[str, list[str]] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Each claim's verdict in each scope, and the comparisons behind the verdicts.

    rows: scope -> tidy rows (results/columns.py; published tables lack the last ones); counts:
    scope -> table, model, method, benchmark, seed, step, problem_id, n, c; averages: a printed mean
    -> its benchmarks, for the cluster's rows. Verdicts: claim, source,
    a verdict a scope, id, and for each scope the numbers behind it and the runs it rests on.
    Comparisons: GAPS. Raises UserError for an ambiguous selector.
    """
    frames = {scope: tidy(frame) for scope, frame in rows.items()}
    decided, table = {}, []
    for scope, frame in frames.items():
        stated = {claim["id"]: predicate(claim, scope) for claim in claims}
        given = (frame, (counts or {}).get(scope))
        single: dict = {"averages": averages or {}, "single": True} if scope == CLUSTER else {}
        measured = {
            name: _measure(f"claim {name}: {scope}", one, *given, **single)
            for name, one in stated.items()
            if one is not None
        }
        decided[scope], gaps = _decide(scope, measured)
        table += gaps
    verdicts = []
    for claim in claims:
        row = {"claim": claim["claim"], "source": claim["source"], "id": claim["id"]}
        for scope in SCOPES:
            unknown = ("not run", "no rows" if claim.get(scope) else "", "")
            decision = decided.get(scope, {}).get(claim["id"], unknown)
            row |= dict(zip((scope, f"{scope}_numbers", f"{scope}_runs"), decision, strict=True))
        verdicts.append(row)
    more = [f"{scope}_{what}" for what in ("numbers", "runs") for scope in SCOPES]
    columns = ["claim", "source", *SCOPES, "id", *more]
    return pd.DataFrame(verdicts, columns=columns), pd.DataFrame(table, columns=GAPS)


def _measure(
    place: str, predicate: dict, rows, counts, *, averages: dict | None = None, single: bool = False
) -> Measured | str:
    """The predicate's comparisons; or what is missing for them."""
    form, body, selectors = parse(place, predicate)
    values, missing = [], []
    for selector in selectors:
        mean = str(selector.get("benchmark"))
        members = (averages or {}).get(mean)
        try:
            if members is None:
                values.append(select(place, selector, rows, counts))
            else:
                found = select(place, {**selector, "benchmark": members}, rows, counts)
                values.append(replace(found, name=words(selector), benchmarks=(mean,)))
        except Missing as error:
            missing.append(str(error))
    if missing:
        return "missing: " + "; ".join(dict.fromkeys(missing))
    pairs = list(
        pairwise(values) if form == "order" else zip(values[::2], values[1::2], strict=False)
    )
    relation = body.get("relation")
    null = body.get("value") if relation in (">", "<") else None
    if form in ("order", "count"):
        gaps = [combine([(1, a), (-1, b)], single=single) for a, b in pairs]
        null = body.get("margin", 0) * (1 if relation == ">" else -1)
    elif form == "mean_gain":
        share = 1 / len(pairs)
        terms = [term for a, b in pairs for term in ((share, a), (-share, b))]
        gaps = [combine(terms, single=single)]
    elif form == "difference":
        gaps = [combine([(1, values[0]), (-1, values[1])], single=single)]
    else:
        gaps = [combine([(1, values[0])], single=single)]
    return Measured(form, body, values, gaps, null)


def _decide(scope: str, measured: dict[str, Measured | str]) -> tuple[dict, list[dict]]:
    """Verdict, numbers and runs of each claim of a scope, and a row for each comparison."""
    known = {name: x for name, x in measured.items() if isinstance(x, Measured)}
    tested = [(gap, x.null) for x in known.values() if x.null is not None for gap in x.gaps]
    adjusted = iter(_adjusted(tested))
    decided, rows = {}, []
    for name, x in measured.items():
        if isinstance(x, str):
            decided[name] = ("not run", x, "")
            continue
        if x.null is not None:
            ps = [next(adjusted) for _ in x.gaps]
            sides = [
                _side(g, x.null, x.body["relation"], p) for g, p in zip(x.gaps, ps, strict=True)
            ]
        else:
            ps, sides = [np.nan] * len(x.gaps), [_inside(x.gaps[0], *_bounds(x.body))]
        runs = dict.fromkeys(str(one) for part in x.values for one in part.run_ids)
        shown = [row(gap, x.null) for gap in x.gaps]
        verdict, numbers = _verdict(x, sides, ps)
        decided[name] = (verdict, numbers + single_text(x.gaps, shown), ";".join(runs))
        rows += [
            {"claim": name, "scope": scope, **one, "p_holm": p, "verdict": side}
            for one, p, side in zip(shown, ps, sides, strict=True)
        ]
    return decided, rows


def _adjusted(tested: list[tuple[Gap, float]]) -> np.ndarray:
    """Holm's p of each comparison within its table; NaN for plain numbers and too few seeds."""
    ps = np.array([_p(gap, null) for gap, null in tested])
    families = np.array([gap.family for gap, _ in tested])
    for family in set(families):
        ps[families == family] = holm(ps[families == family])
    return ps


def _p(gap: Gap, null: float) -> float:
    """p-value of gap = null; NaN where nothing is random, or too little is known of it."""
    return gap.interval.p(null) if gap.parts else np.nan


def _verdict(x: Measured, sides: list[str], ps: list[float]) -> tuple[str, str]:
    n = {side: sides.count(side) for side in ("holds", "fails", "inconclusive")}
    if x.form == "count":
        numbers = f"{n['holds']} hold, {n['fails']} fail, {n['inconclusive']} open of {len(sides)}"
        enough = x.body["at_least"]
        if n["holds"] >= enough:
            return "holds", numbers
        return ("fails" if len(sides) - n["fails"] < enough else "inconclusive"), numbers
    if x.form == "mean_gain":
        gain = interval_text(x.gaps[0].interval, x.gaps[0].single)
        numbers = f"mean gain {gain} over {len(x.values) // 2} pairs"
    elif x.form == "range":
        numbers = interval_text(x.gaps[0].interval, x.gaps[0].single)
    else:
        numbers = order_text(x.values, x.gaps)
    numbers += power_text(x.gaps, ps)
    everywhere = "holds" if n["holds"] == len(sides) else "inconclusive"
    return ("fails" if n["fails"] else everywhere), numbers


def _side(gap: Gap, null: float, relation: str, p: float) -> str:
    """holds, fails or inconclusive for gap > null (or <); p is the corrected one."""
    value = gap.interval.value
    if abs(value - null) < 1e-9:
        return "inconclusive"
    if not gap.single and (np.isnan(gap.interval.stderr) or (gap.parts and p >= 0.05)):
        return "inconclusive"
    return "holds" if (value > null) == (relation == ">") else "fails"


def _bounds(body: dict) -> tuple[float, float]:
    within = body.get("within", 0)
    low = body.get("low", body.get("value", -np.inf) - within)
    return low, body.get("high", body.get("value", np.inf) + within)


def _inside(gap: Gap, low: float, high: float) -> str:
    value = gap.interval.value
    below, above = (value, value) if gap.single else gap.interval.bounds()
    if below >= low - 1e-9 and above <= high + 1e-9:
        return "holds"
    return "fails" if below > high + 1e-9 or above < low - 1e-9 else "inconclusive"
