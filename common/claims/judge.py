"""Claims are data: `papers/<p>/claims.yaml`, a list of sentences with one predicate per scope.

    - id: focal-pass256
      claim: Focal weighting raises GRPO's pass@256
      source: Table 1
      published: {order: [{method: F-GRPO}, {method: GRPO}], relation: ">", where: {k: 256, ...}}
      laptop: ...                        # left out: the claim is not made at that scale
      cluster: ...                       # left out: as `published`; null: no run can decide it

      headline: Focal weighting raises GRPO's pass@k at large k

`headline` is a short form of the claim. The claims that have one are shown on a first screen
(common/report/verdicts.py). `ours: true` marks a reading that is not the paper's sentence.
common/claims/file.py reads the list.

A selector (SEL) is a map of column to value (table, model, method, benchmark, metric, k, unit,
seed, step, run_id). A list of values means the plain average over them, and null matches an empty
cell. Without `step`, the last step of each seed counts. `where` is merged into every selector of
its predicate. The predicates:

    order: [SEL, SEL, ...]  with  relation: ">" | "<"  and  margin: points (0 if left out)
    difference: {a: SEL, b: SEL, relation: "~" | ">" | "<", value: x, within: y}
                                                                    a - b against x
    range: {of: SEL, low: x, high: y}                               one bound may be left out
    count: {pairs: [[SEL, SEL], ...], relation: ">" | "<", at_least: n, margin: points}
    count: {of: [SEL, ...], relation: ">" | "<", value: x, at_least: n}       each against x
    mean_gain: {pairs: [[SEL, SEL], ...], relation: "~" | ">" | "<", value: x, within: y}
                                                                    mean of first - second against x
    trend: {of: [SEL, ...], at: [x, ...], relation: ">" | "<"}      the least squares slope over x

`each: {column: [value, ...], ...}` in count and mean_gain takes every pair or selector once for
each combination of these values, and a list of such maps for the combinations of each map. A grid
of settings is one claim with a count.

"~" means |difference - x| <= within. Rows without a seed (printed numbers, closed forms) are
compared as numbers; a tie is inconclusive. Rows with seeds are compared by the 95 % interval of
`two_way_interval`: over seeds and problems where the counts of every selected row are given
(pass@k, best@k and avg@k), else over seeds only, which takes the problems as fixed. All selectors
of a claim are read on the seeds that they share, so that runs are paired; in a count, each pair is
read on the seeds that its two selectors share. With fewer than three seeds nothing is decided on a
laptop. On a cluster, where the papers have one run per cell, the spread of such rows over seeds is
taken from elsewhere (common/metrics/noise.py) and added to the spread over problems. A verdict that
stays open because a side has one run is "inconclusive (one run)". For sizes ("~") and ranges on a
cluster, the tolerance is the noise of the printed number and of the rerun's
(common/claims/sizes.py).

A cluster selector of a printed average stands for the benchmarks that it averages (`averages`). The
test is then over the problems of these benchmarks.

A claim is one hypothesis, however many comparisons it has. Its p-value is that of the partial
conjunction of its comparisons: all links of an order, `at_least` of a count (docs/evidence.md). The
claim holds when they lie on the claimed side with p < 0.05, fails when enough of them lie on the
other side with p < 0.05, and is inconclusive otherwise. p is corrected over the claims of the scope
with the same `family`: by Holm for `primary` (what the paper's abstract says of training), else by
Benjamini and Hochberg. Intervals that are shown are not corrected. "~" and range hold when the
whole interval lies inside the bounds.

Further verdicts: not run; not claimed here (no predicate in this scope); mechanism not engaged
(both sides have the same number in every seed and problem, so what the claim is about had no
effect).
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd

from common.claims.file import CLUSTER, PRIMARY, REST, SCOPES, load, parse, predicate
from common.claims.gaps import (
    GAPS,
    MIN_SEEDS,
    Gap,
    combine,
    interval_text,
    order_text,
    power_text,
    row,
    single_text,
)
from common.claims.select import (
    Counts,
    Found,
    Missing,
    Refused,
    indexed,
    on_shared_seeds,
    select,
    tidy,
    words,
)
from common.claims.single import ONE_RUN
from common.claims.sizes import level, side
from common.errors import UserError
from common.metrics.bootstrap import benjamini_hochberg, holm

__all__ = ["GAPS", "SCOPES", "judge", "load"]
NOT_RUN, NOT_CLAIMED = "not run", "not claimed here"
NOT_ENGAGED = "mechanism not engaged"
WITHOUT = (NOT_RUN, NOT_CLAIMED)  # verdicts that rest on no number


@dataclass(frozen=True)
class Evidence:
    """A predicate with the values and comparisons that decide it."""

    form: str
    body: dict
    values: list[Found]
    gaps: list[Gap]
    null: float | None  # the gaps are tested against it; None: the interval must lie inside bounds


def judge(
    claims: list[dict],
    rows: dict[str, pd.DataFrame],
    counts: dict[str, pd.DataFrame | Counts] | None = None,
    averages: dict[str, list[str]] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return (the verdict on each claim in each scope, with its numbers and runs; the comparisons
    behind the verdicts, GAPS; a message for each claim that is left out of both because one of its
    selectors is ambiguous on these rows or its rows contradict their counts).

    rows: scope -> result rows (results/columns.py; published tables lack the last columns); counts:
    scope -> PER_PROBLEM; averages: a printed mean -> its benchmarks, used for cluster rows.
    """
    frames = {scope: tidy(frame) for scope, frame in rows.items()}
    measured: dict[str, dict] = {}
    ambiguous: dict[str, str] = {}
    for scope, frame in frames.items():
        stated = {claim["id"]: predicate(claim, scope) for claim in claims}
        behind = (counts or {}).get(scope)
        given = (frame, indexed(behind) if isinstance(behind, pd.DataFrame) else behind)
        how: dict = {"averages": averages or {}, "cluster": True} if scope == CLUSTER else {}
        how["seen"] = {}
        measured[scope] = {}
        for name, one in stated.items():
            if one is not None and name not in ambiguous:
                try:
                    place = f"claim {name}: {scope}"
                    measured[scope][name] = _measure(place, one, *given, **how)
                except UserError as error:
                    ambiguous[name] = f"{error}; this claim is left out"
    claims = [claim for claim in claims if claim["id"] not in ambiguous]
    families = {claim["id"]: claim.get("family", REST) for claim in claims}
    decided, table = {}, []
    for scope, found in measured.items():
        fine = {name: one for name, one in found.items() if name in families}
        decided[scope], gaps = _decide(scope, fine, families)
        table += gaps
    verdicts = []
    for claim in claims:
        row = {"claim": claim["claim"], "source": claim["source"], "id": claim["id"]}
        for scope in SCOPES:
            unknown = (NOT_RUN, "no rows" if claim.get(scope) else "", "")
            if predicate(claim, scope) is None:
                unknown = (NOT_CLAIMED, "", "")
            decision = decided.get(scope, {}).get(claim["id"], unknown)
            row |= dict(zip((scope, f"{scope}_numbers", f"{scope}_runs"), decision, strict=True))
        verdicts.append(row | {"family": families[claim["id"]]})
    more = [f"{scope}_{what}" for what in ("numbers", "runs") for scope in SCOPES]
    columns = ["claim", "source", *SCOPES, "id", "family", *more]
    gaps = pd.DataFrame(table, columns=GAPS)
    return pd.DataFrame(verdicts, columns=columns), gaps, list(ambiguous.values())


def _measure(
    place: str,
    predicate: dict,
    rows,
    counts,
    *,
    averages: dict | None = None,
    cluster: bool = False,
    seen: dict[str, Found],
) -> Evidence | tuple[str, str]:
    """Return the measured predicate, or (verdict, reason) where rows are missing or a reading is
    refused. seen: what selectors found in these rows so far, by their text; this call adds to
    it."""
    form, body, selectors = parse(place, predicate)
    values, missing, refused = [], [], []
    for selector in selectors:
        mean = str(selector.get("benchmark"))
        members = (averages or {}).get(mean)
        key = str(selector)
        try:
            if key in seen:
                pass
            elif members is None:
                seen[key] = select(place, selector, rows, counts)
            else:
                found = select(place, {**selector, "benchmark": members}, rows, counts)
                seen[key] = replace(found, name=words(selector), benchmarks=(mean,))
            values.append(seen[key])
        except Missing as error:
            missing.append(str(error))
        except Refused as error:
            refused.append(str(error))
    if missing:
        return NOT_RUN, "missing: " + "; ".join(dict.fromkeys(missing))
    if refused:
        return "inconclusive", "; ".join(dict.fromkeys(refused))
    of = form == "count" and "of" in body
    together = 1 if of else 2 if form == "count" else len(values)
    values = [
        value
        for at in range(0, len(values), together)
        for value in on_shared_seeds(values[at : at + together], MIN_SEEDS)
    ]
    pairs = list(
        pairwise(values) if form == "order" else zip(values[::2], values[1::2], strict=False)
    )
    relation = body.get("relation")
    null = body.get("value") if relation in (">", "<") else None
    if of:
        gaps = [combine([(1, value)], cluster=cluster) for value in values]
    elif form in ("order", "count"):
        gaps = [combine([(1, a), (-1, b)], cluster=cluster) for a, b in pairs]
        null = body.get("margin", 0) * (1 if relation == ">" else -1)
    elif form == "mean_gain":
        share = 1 / len(pairs)
        terms = [term for a, b in pairs for term in ((share, a), (-share, b))]
        gaps = [combine(terms, cluster=cluster)]
    elif form == "difference":
        gaps = [combine([(1, values[0]), (-1, values[1])], cluster=cluster)]
    elif form == "trend":
        x = np.array(body["at"], float) - np.mean(body["at"])
        terms = list(zip(x / (x**2).sum(), values, strict=True))
        gaps, null = [combine(terms, cluster=cluster)], 0
    else:
        gaps = [level(combine([(1, values[0])], cluster=cluster))]
    return Evidence(form, body, values, gaps, null)


def _decide(
    scope: str, measured: dict[str, Evidence | tuple[str, str]], families: dict[str, str]
) -> tuple[dict, list[dict]]:
    """Return (claim -> verdict, numbers and runs; a row for each comparison) of one scope."""
    known = {name: x for name, x in measured.items() if isinstance(x, Evidence)}
    tests = {name: _test(x) for name, x in known.items()}
    corrected = _corrected({name: min(test) for name, test in tests.items()}, known, families)
    decided, rows = {}, []
    for name, x in measured.items():
        if not isinstance(x, Evidence):
            decided[name] = (*x, "")
            continue
        ps = corrected[name]
        adjusted = ps["p_holm" if families[name] == PRIMARY else "p_bh"]
        runs = dict.fromkeys(str(one) for part in x.values for one in part.run_ids)
        shown = [row(gap, x.null) for gap in x.gaps]
        sides = _sides(x)
        said = _numbers(x, sides)
        if not np.isnan(adjusted):
            said += f", {'Holm' if families[name] == PRIMARY else 'BH'} p {adjusted:.2g}"
        verdict = _of_one_run(x, _verdict(x, sides, tests[name], adjusted))
        sides = [_of_one_run(x, one) for one in sides]
        of_one = x.form == "count" and not any(gap.single for gap in x.gaps)
        more = "" if of_one else power_text(x.gaps)
        decided[name] = (verdict, said + more + single_text(x.gaps, shown), ";".join(runs))
        rows += [
            {"claim": name, "scope": scope, "family": families[name], **one, **ps, "verdict": side}
            for one, side in zip(shown, sides, strict=True)
        ]
    return decided, rows


def _test(x: Evidence) -> tuple[float, float]:
    """Return the p-values of two statements: the claim holds, and the claim fails. Each is that of
    the partial conjunction of the comparisons on its side (Benjamini and Heller 2008, Bonferroni's
    form). NaN where nothing is tested against a number."""
    if x.null is None:
        return np.nan, np.nan
    towards, against = [], []
    for gap in x.gaps:
        p, distance = _p(gap, x.null), gap.interval.value - x.null
        claimed = (distance > 0) == (x.body["relation"] == ">")
        tie = abs(distance) < 1e-9
        towards.append(p if claimed and not tie else 1.0)
        against.append(p if not claimed and not tie else 1.0)
    m = len(x.gaps)
    n = x.body["at_least"] if x.form == "count" else m
    return _partial(towards, n), _partial(against, m - n + 1)


def _partial(ps: list[float], n: int) -> float:
    """Return the p-value of the statement that at least n of these comparisons are on their
    side."""
    return min(1.0, (len(ps) - n + 1) * sorted(ps)[n - 1])


def _p(gap: Gap, null: float) -> float:
    """Return the p-value of gap = null: 0 or 1 by the numbers where nothing is random, and 1
    (nothing is decided) with too few seeds on a laptop."""
    return 1.0 if np.isnan(gap.interval.stderr) else gap.interval.p(null)


def _corrected(
    ps: dict[str, float], known: dict[str, Evidence], families: dict[str, str]
) -> dict[str, dict[str, float]]:
    """Return p of each claim, uncorrected and with both corrections over the claims of its family
    that are tests. It is NaN for claims without a test: numbers without seeds, too few seeds, and
    intervals that must lie inside bounds."""
    tested = {
        name: p if any(gap.parts or gap.single for gap in known[name].gaps) else np.nan
        for name, p in ps.items()
    }
    table = pd.DataFrame({"p_claim": tested, "family": {name: families[name] for name in tested}})
    table[["p_holm", "p_bh"]] = np.nan
    for _, group in table.groupby("family"):
        table.loc[group.index, "p_holm"] = holm(group["p_claim"].to_numpy())
        table.loc[group.index, "p_bh"] = benjamini_hochberg(group["p_claim"].to_numpy())
    return table.drop(columns="family").to_dict("index")


def _sides(x: Evidence) -> list[str]:
    """Return "holds", "fails" or "inconclusive" for each comparison, without a correction."""
    if x.null is None:
        return [side(x.gaps[0], x.form, x.body)]
    sides = []
    for gap in x.gaps:
        distance = gap.interval.value - x.null
        if abs(distance) < 1e-9 or _p(gap, x.null) >= 0.05:
            sides.append("inconclusive")
        else:
            sides.append("holds" if (distance > 0) == (x.body["relation"] == ">") else "fails")
    return sides


def _of_one_run(x: Evidence, word: str) -> str:
    """Return ONE_RUN instead of "inconclusive" where a side has one run; else `word` unchanged."""
    one = any(gap.single and gap.seeds == 1 for gap in x.gaps)
    return ONE_RUN if one and word == "inconclusive" else word


def _numbers(x: Evidence, sides: list[str]) -> str:
    n = {side: sides.count(side) for side in ("holds", "fails", "inconclusive")}
    if x.form == "count":
        return f"{n['holds']} hold, {n['fails']} fail, {n['inconclusive']} open of {len(sides)}"
    gap = x.gaps[0]
    if x.form == "mean_gain":
        gain = interval_text(gap.interval)
        return f"mean gain {gain} over {len(x.values) // 2} pairs"
    if x.form == "range":
        return interval_text(gap.interval)
    if x.form == "trend":
        return f"slope {interval_text(gap.interval)} over {len(x.values)} settings"
    return order_text(x.values, x.gaps)


def _verdict(x: Evidence, sides: list[str], test: tuple[float, float], adjusted: float) -> str:
    if x.form != "range" and all(gap.idle for gap in x.gaps):
        return NOT_ENGAGED
    if x.null is None:
        return sides[0]
    towards, against = test
    p = min(test) if np.isnan(adjusted) else adjusted
    if p >= 0.05 or towards == against:
        return "inconclusive"
    return "holds" if towards < against else "fails"
