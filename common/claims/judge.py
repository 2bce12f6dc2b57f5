"""Claims are data: `papers/<p>/claims.yaml`, a list of sentences with one predicate per scope.

    - id: focal-pass256
      claim: Focal weighting raises GRPO's pass@256
      source: Table 1
      published: {order: [{method: F-GRPO}, {method: GRPO}], relation: ">", where: {k: 256, ...}}
      laptop: ...                        # left out: the claim is not made at that scale
      cluster: ...                       # left out: as `published`; null: no run can decide it

      headline: Focal weighting raises GRPO's pass@k at large k

`headline` is a short form of the claim, shown on a first screen (common/report/verdicts.py). `ours:
true` marks a reading that is not the paper's sentence. Where the claim named by `premise: ID`
fails, this claim is not engaged. common/claims/forms.py has a type for each predicate.

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
each combination of these values; a list of such maps does so for each map.

"~" means |difference - x| <= within. Rows without a seed (printed numbers, closed forms) are
compared as numbers; a tie is inconclusive. Rows with seeds are compared by the 95 % interval of
`two_way_interval`: over seeds and problems where the counts of every selected row are given
(pass@k, best@k and avg@k), else over seeds only, with the problems fixed. All selectors of a claim
(in a count, of each pair) are read on the seeds that they share, so that runs are paired. A laptop
needs three seeds to decide a claim. On a cluster, where the papers have one run per cell, the
spread over seeds is taken from elsewhere (common/metrics/noise.py) and added to the spread over
problems. A verdict that stays open because a side has one run is "inconclusive (one run)". Sizes
("~") and ranges on a cluster: common/claims/sizes.py.

A cluster selector of a printed average stands for the benchmarks that it averages (`averages`), and
the test is over their problems. In a list of benchmarks each has the same weight, and an average
shares its weight among its own.

A claim is one hypothesis, however many comparisons it has. An order of three or more is judged by
the slope over its places, a count of most pairs or of all values by their mean (`Form.whole`), any
other count by the partial conjunction of its comparisons (docs/evidence.md). The claim holds where
that lies on the claimed side with p < 0.05, fails where it, or enough of the comparisons, lie on
the other side with p < 0.05, and is inconclusive otherwise, also where one comparison of a mean or
slope lies on the other side alone. p is corrected over the claims of the scope with the same
`family`: by Holm for `primary` (what the paper's abstract says of training), else by Benjamini and
Hochberg. Intervals are not corrected. "~" and range hold when the whole interval lies inside the
bounds.

Further verdicts: not run; not claimed here (no predicate in this scope); mechanism not engaged
(both sides have the same number in every seed and problem, or the premise fails). A claim that is
not engaged stays in its family's correction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from common.claims.file import CLUSTER, PRIMARY, PUBLISHED, SCOPES, Claim
from common.claims.forms import Count, Form
from common.claims.gaps import GAPS, Gap, interval_text, power_text, row
from common.claims.select import Counts, Found, Missing, Refused, indexed, select, tidy, words
from common.claims.single import ONE_RUN
from common.errors import UserError
from common.metrics.bootstrap import benjamini_hochberg, holm

NOT_RUN, NOT_CLAIMED = "not run", "not claimed here"
NOT_ENGAGED = "mechanism not engaged"
WITHOUT = (NOT_RUN, NOT_CLAIMED)  # verdicts that rest on no number
# (beginning of an error's message, selector) -> its values; raises as `select` does
Find = Callable[[str, dict], Found]


@dataclass(frozen=True)
class Evidence:
    """A claim's comparisons in a scope."""

    family: str
    form: Form
    gaps: list[Gap]
    whole: Gap | None = None  # their mean, which a sentence on all of them is judged by

    @cached_property
    def tests(self) -> list[tuple[float, float]]:
        return [self.sides_of(gap) for gap in self.gaps]

    def sides_of(self, gap: Gap) -> tuple[float, float]:
        """Return p of "it lies on the claimed side" and of "on the other side": 0 or 1 without
        random numbers, 1 for a tie or too few seeds."""
        above = gap.interval.value - self.form.null
        open_ = abs(above) < 1e-9 or np.isnan(gap.interval.stderr)
        p = 1.0 if open_ else gap.interval.p(self.form.null)
        return (p, 1.0) if (above > 0) == self.form.up else (1.0, p)

    @property
    def sides(self) -> list[str]:
        """The verdict on each comparison, without a correction."""
        if self.form.null is None:
            return [self.form.side(self.gaps[0])]
        return [_word(*tests) for tests in self.tests]

    @cached_property
    def test(self) -> tuple[float, float]:
        """The p-values of two statements: the claim holds, and the claim fails. Each is that of the
        partial conjunction of the comparisons on its side (Benjamini and Heller 2008, Bonferroni's
        form). With `whole`, it holds if that lies on the claimed side and no comparison alone lies
        on the other, and fails if that or a comparison does. NaN without `null`."""
        if self.form.null is None:
            return np.nan, np.nan
        towards, against = zip(*self.tests, strict=True)
        n, m = getattr(self.form, "at_least", len(self.gaps)), len(self.gaps)
        fails = _partial(against, m - n + 1)
        if self.whole is None:
            return _partial(towards, n), fails
        mean, against_mean = self.sides_of(self.whole)
        return (1.0 if min(against) < 0.05 else mean), min(1.0, 2 * min(fails, against_mean))

    @property
    def p(self) -> float:
        """The p-value of the statement that the verdict may be: "fails" first."""
        return self.test[1] if self.test[1] < 0.05 else min(self.test)

    def verdict(self, adjusted: float) -> str:
        """Return the verdict with the corrected p-value; NaN: without a correction."""
        if all(gap.idle for gap in self.gaps):
            return NOT_ENGAGED
        if self.form.null is None:
            return self.sides[0]
        if (self.p if np.isnan(adjusted) else adjusted) >= 0.05:
            return "inconclusive"
        return "fails" if self.test[1] < 0.05 else "holds"

    def of_one_run(self, word: str) -> str:
        """Return ONE_RUN instead of "inconclusive" where a side has one run."""
        one = any(gap.single and gap.seeds == 1 for gap in self.gaps)
        return ONE_RUN if one and word == "inconclusive" else word


Measured = Evidence | tuple[str, str]  # or (verdict, reason) without comparisons


def judge(
    claims: list[Claim],
    rows: dict[str, pd.DataFrame],
    counts: dict[str, pd.DataFrame | Counts] | None = None,
    averages: dict[str, list[str]] | None = None,
    *,
    spread: float = 1.0,
    declared: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return (the verdict on each claim in each scope, with its numbers and runs; the comparisons
    behind the verdicts, GAPS; a message for each claim that is left out, because a selector is
    ambiguous or rows contradict their counts).

    rows: scope -> result rows (results/columns.py; published tables lack the last columns); counts:
    scope -> PER_PROBLEM; averages: a printed mean -> its benchmarks, used for cluster rows; spread:
    what the assumed spread over seeds is multiplied by; declared: Holm's correction counts all
    claims, with p = 1 where one has not run.
    """
    measured: dict[str, dict[str, Measured]] = {scope: {} for scope in rows}
    ambiguous: dict[str, str] = {}
    for scope, frame in rows.items():
        printed = averages or {} if scope == CLUSTER else {}
        find = finder(frame, (counts or {}).get(scope), printed)
        for claim in claims:
            if claim.predicate(scope) is None or claim.id in ambiguous:
                continue
            try:
                measured[scope][claim.id] = _evidence(claim, scope, find, spread)
            except UserError as error:
                ambiguous[claim.id] = f"{error}; this claim is left out"
    claims = [claim for claim in claims if claim.id not in ambiguous]
    decided, gaps = {}, []
    for scope, found in measured.items():
        known = {name: x for name, x in found.items() if name not in ambiguous}
        decided[scope], behind = _decide(scope, known, declared)
        gaps += behind
        for claim in (one for one in claims if one.premise in decided[scope]):
            first, own = decided[scope][claim.premise][0], decided[scope].get(claim.id)
            if own and own[0] not in WITHOUT and first == "fails":
                text = f"{own[1]}; {claim.premise} fails"
                decided[scope][claim.id] = (NOT_ENGAGED, text, own[2])
    verdicts = []
    for claim in claims:
        line = {"claim": claim.claim, "source": claim.source, "id": claim.id}
        for scope in SCOPES:
            form = claim.predicate(scope)
            repeated = scope == CLUSTER and form is claim.predicate(PUBLISHED)
            unknown = (NOT_RUN, "" if repeated else "no rows", "")
            if form is None:
                unknown = (NOT_CLAIMED, "", "")
            decision = decided.get(scope, {}).get(claim.id, unknown)
            line |= dict(zip((scope, f"{scope}_numbers", f"{scope}_runs"), decision, strict=True))
        verdicts.append(line | {"family": claim.family})
    more = [f"{scope}_{what}" for what in ("numbers", "runs") for scope in SCOPES]
    columns = ["claim", "source", *SCOPES, "id", "family", *more]
    found = pd.DataFrame(verdicts, columns=columns), pd.DataFrame(gaps, columns=GAPS)
    return *found, list(ambiguous.values())


def finder(
    rows: pd.DataFrame, counts: pd.DataFrame | Counts | None, averages: dict[str, list[str]]
) -> Find:
    tidied = tidy(rows)
    counts = indexed(counts) if isinstance(counts, pd.DataFrame) else counts
    seen: dict[str, Found] = {}

    def find(place: str, selector: dict) -> Found:
        key, named = str(selector), selector.get("benchmark")
        mean = str(named)
        if key not in seen and isinstance(named, list) and set(named) & set(averages):
            sets = [find(place, {**selector, "benchmark": one}) for one in named]
            seen[key] = select(place, selector, tidied, counts).of(sets)
        elif key not in seen and mean in averages:
            found = select(place, {**selector, "benchmark": averages[mean]}, tidied, counts)
            seen[key] = replace(found, name=words(selector), benchmarks=(mean,))
        elif key not in seen:
            seen[key] = select(place, selector, tidied, counts)
        return seen[key]

    return find


def _evidence(claim: Claim, scope: str, find: Find, spread: float) -> Measured:
    """Return a claim's comparisons in a scope, or (verdict, reason) without its rows."""
    form, values, missing, refused = claim.predicate(scope), [], {}, {}
    for selector in form.selectors:
        try:
            values.append(find(f"claim {claim.id}: {scope}", selector))
        except Missing as error:
            missing[str(error)] = None
        except Refused as error:
            refused[str(error)] = None
    if missing:
        return NOT_RUN, "missing: " + "; ".join(missing)
    if refused:
        return "inconclusive", "; ".join(refused)
    how = {"assumed": spread if scope == CLUSTER else None}
    random = any(x.seeds is not None for x in values)  # else the sentence is taken at its word
    whole = form.whole(values, **how) if random else None
    return Evidence(claim.family, form, form.gaps(values, **how), whole)


def _decide(scope: str, measured: dict[str, Measured], declared: bool) -> tuple[dict, list[dict]]:
    """Return (claim -> verdict, numbers and runs; a row for each comparison) of one scope."""
    known = {name: x for name, x in measured.items() if isinstance(x, Evidence)}
    corrected = _corrected(known, missing=len(measured) - len(known) if declared else 0)
    decided, rows = {}, []
    for name, x in measured.items():
        if not isinstance(x, Evidence):
            decided[name] = (*x, "")
            continue
        ps, sides = corrected[name], x.sides
        correction, adjusted = ("Holm", ps["p_holm"]) if x.family == PRIMARY else ("BH", ps["p_bh"])
        said = x.form.numbers(x.gaps, sides)
        if not np.isnan(adjusted):
            said += f", {correction} p {adjusted:.2g}"
        whole = [] if x.whole is None else [x.whole]
        if whole:
            said = f"on average {interval_text(x.whole.interval)}; alone {said}"
        if whole or not isinstance(x.form, Count) or any(gap.single for gap in x.gaps):
            said += power_text(whole or x.gaps)
        shown = [row(gap, x.form.null) for gap in x.gaps]
        if any(gap.single for gap in x.gaps):
            said += "; single runs, the spread over seeds from elsewhere"
        for gap in whole:
            shown.insert(0, row(gap, x.form.null) | {"of": len(x.gaps)})
            sides.insert(0, _word(*x.sides_of(gap)))
        read = [found for gap in x.gaps for _, found in gap.terms]
        runs = dict.fromkeys(str(run) for found in read for run in found.run_ids)
        verdict = x.of_one_run(x.verdict(adjusted))
        decided[name] = (verdict, said, ";".join(runs))
        claim = {"claim": name, "scope": scope, "family": x.family, **ps}
        rows += [
            {**claim, **one, "verdict": x.of_one_run(side)}
            for one, side in zip(shown, sides, strict=True)
        ]
    return decided, rows


def _word(towards: float, against: float) -> str:
    return "holds" if towards < 0.05 else "fails" if against < 0.05 else "inconclusive"


def _partial(ps: Sequence[float], n: int) -> float:
    """Return the p-value of: at least n of these comparisons are on their side."""
    return min(1.0, (len(ps) - n + 1) * sorted(ps)[n - 1])


def _corrected(known: dict[str, Evidence], missing: int) -> dict[str, dict[str, float]]:
    """Return p of each claim, uncorrected and corrected in its family; NaN without a test.
    `missing` claims of the family `primary` have p = 1."""
    lines = [(f"{i} missing", PRIMARY, 1.0) for i in range(missing)]
    for name, x in known.items():
        tested = any(gap.parts or gap.single for gap in x.gaps)
        lines.append((name, x.family, x.p if tested else np.nan))
    table = pd.DataFrame(lines, columns=["claim", "family", "p_claim"]).set_index("claim")
    by_family = table.groupby("family")["p_claim"]
    table["p_holm"] = by_family.transform(holm)
    table["p_bh"] = by_family.transform(benjamini_hochberg)
    return table.drop(columns="family").to_dict("index")
