"""Gains: for each printed pair of a method and its baseline, the rerun's gain next to the printed
one, on the same problems.

Two tests are shown next to each gain. `p_samples` is F-GRPO's App. I: do these two finished models
differ when samples are drawn again? `p_problems` is ours: would they differ on further problems?
Neither accounts for seeds, so the verdict rests on neither.
"""

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS, subsampled_p
from common.claims.select import COUNTED, Counts, indexed
from common.claims.single import KNOWN
from common.comparison.cells import (
    by_cell,
    not_reproducible,
    other_problems,
    rounding,
    run_variance,
)
from common.comparison.spec import Spec
from common.metrics.paired import Interval, over_problems
from common.metrics.passk import estimate, estimator

PLACE = ["table", "model", "benchmark", "metric"]
COLUMNS = [
    *["table", "model", "method", "baseline", "benchmark", "metric", "k", "unit", "printed"],
    *["rerun", "low", "high", "p_samples", "p_problems", "n_seeds", "mdd", "verdict", "run_ids"],
]
AGREES, SMALLER, LARGER = "agrees", "smaller", "larger"
OPPOSITE, CANNOT_TELL, NOT_RUN = "opposite", "cannot tell", "not run"
VERDICTS = (AGREES, SMALLER, LARGER, OPPOSITE, CANNOT_TELL, NOT_RUN)


def gains(
    spec: Spec, printed: pd.DataFrame, rerun: pd.DataFrame, counts: pd.DataFrame
) -> pd.DataFrame:
    """Return COLUMNS for every pair of `Spec.gains` that a table prints, in the number's own unit.

    rerun, counts: those of the cluster, as printed (cells.as_printed). low, high: where the gain of
    one further pair of runs, such as the printed one, would lie with 95 %, widened by the rounding
    of the printed numbers. mdd: the smallest gain that such reruns detect four times in five.
    """
    measured, behind, rows = by_cell(rerun), indexed(counts), []
    for one in printed_pairs(spec, printed).to_dict("records"):
        found: dict = {"verdict": NOT_RUN}
        if sides := _sides(one, measured):
            tests = _tests(spec, one, sides[0][0], measured, behind)
            found = tests | _gain(spec, one, *sides)
        rows.append(one | found)
    return pd.DataFrame(rows, columns=COLUMNS)


def printed_pairs(spec: Spec, printed: pd.DataFrame) -> pd.DataFrame:
    """Return the printed pairs that can be rerun, with their printed gain and `rounding`, the most
    by which rounding may have changed it."""
    parts = []
    printed = printed[[reason is None for reason in not_reproducible(spec, printed)]]
    rounded = printed.assign(rounding=[rounding(row) for row in printed.to_dict("records")])
    for method, baseline in spec.gains:
        sides = (rounded[rounded["method"] == name] for name in (method, baseline))
        pair = pd.merge(*sides, on=PLACE, suffixes=("", "_of"), sort=False)
        gain = pair["value"] - pair["value_of"]
        slack = pair["rounding"] + pair["rounding_of"]
        parts.append(pair.assign(baseline=baseline, printed=gain, rounding=slack))
    pairs = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return pairs.reindex(columns=[*COLUMNS[:9], "rounding"])


def verdict(printed: float, low: float, high: float, rerun: Interval) -> str:
    """Return the verdict on a gain. If the printed gain lies in low..high: "agrees" where the
    rerun's gain differs from 0 (p < 0.05) and has the printed sign, else "cannot tell". If it lies
    outside: "opposite" where the rerun's gain differs from 0 and has the other sign, "larger" where
    it is farther from 0 than the printed one and not of the other sign, else "smaller"."""
    there = rerun.p(0) < 0.05
    if low - 1e-9 <= printed <= high + 1e-9:
        return AGREES if there and rerun.value * printed > 0 else CANNOT_TELL
    if there and rerun.value * printed < 0:
        return OPPOSITE
    beyond = abs(rerun.value) > abs(printed) and rerun.value * printed >= 0
    return LARGER if beyond else SMALLER


def _sides(one: dict, measured: dict) -> tuple[list[dict], list[dict]] | None:
    """Return the rows of both methods in a cell, one per seed; None where a method was not run."""
    keys = (
        (one["table"], one["model"], one[name], one["benchmark"], one["metric"])
        for name in ("method", "baseline")
    )
    a, b = (measured.get(key) for key in keys)
    return None if a is None or b is None else (a, b)


def _gain(spec: Spec, one: dict, a: list[dict], b: list[dict]) -> dict:
    """Return the rerun's gain, its interval and its verdict. Runs with the same seeds are paired
    from MIN_SEEDS shared seeds on, unless all their differences are alike."""
    values_a, values_b = ({row["seed"]: row["value"] for row in x} for x in (a, b))
    both = sorted(set(values_a) & set(values_b))
    printed_problems = spec.own_problems.get(one["benchmark"])
    apart = sum(other_problems(x[0], printed_problems) for x in (a, b))
    difference = np.array([values_a[seed] - values_b[seed] for seed in both])
    if len(both) >= MIN_SEEDS and np.ptp(difference) > 1e-9:
        seeds, variance, df = len(both), difference.var(ddof=1), len(both) - 1.0
        value = difference.mean()
    else:
        seeds, df = min(len(a), len(b)), KNOWN
        value = np.mean([*values_a.values()]) - np.mean([*values_b.values()])
        variance = run_variance(a[0]) + run_variance(b[0])
    rerun = Interval(float(value), float(np.sqrt(variance / seeds)), df)
    further = Interval(float(value), float(np.sqrt(variance * (1 + 1 / seeds) + apart)), df)
    half = further.half() + one["rounding"]
    low, high = value - half, value + half
    runs = ";".join(dict.fromkeys(str(row["run_id"]) for x in (a, b) for row in x))
    found = {"rerun": value, "low": low, "high": high, "n_seeds": seeds, "run_ids": runs}
    word = verdict(one["printed"], low, high, rerun)
    return found | {"mdd": rerun.detectable(), "verdict": word}


# ---- the two tests of finished models


def _tests(spec: Spec, one: dict, first: dict, measured: dict, behind: Counts) -> dict[str, float]:
    """Return p_samples and p_problems of a pair, whose method has the row `first`; without those
    for which there are no counts on the same problems."""
    of = estimator(str(first.get("measured", one["metric"])))
    counts = _counts(spec, one, measured, behind) if of else None
    if of is None or counts is None or of[1] > counts[2]:
        return {}
    c_a, c_b, n, strata = counts
    apart = 100 * (estimate(of, c_a, n) - estimate(of, c_b, n))
    tests = {"p_problems": over_problems(apart[None], strata=strata).p()}
    if of[0] == "pass" and n >= 2 * of[1]:
        tests["p_samples"] = subsampled_p(c_a, c_b, n, of[1], strata)
    return tests


def _counts(spec: Spec, one: dict, measured: dict, behind: Counts):
    """Return the correct counts of both sides on the same problems, seed after seed, the number of
    samples n, and each problem's benchmark; None where counts are missing, or the problems or n
    differ."""
    parts: list[tuple] = []
    for member in spec.averages.get(one["benchmark"], [one["benchmark"]]):
        sides = _sides(one | {"benchmark": member}, measured)
        if sides is None:
            return None
        a, b = ({row["seed"]: row for row in x} for x in sides)
        for seed in sorted(set(a) & set(b)):
            at = [behind.rows.get(tuple(row[x] for x in COUNTED)) for row in (a[seed], b[seed])]
            if any(x is None for x in at):
                return None
            at = [x[np.argsort(behind.problem[x])] for x in at]
            if not np.array_equal(*(behind.problem[x] for x in at)):
                return None
            parts.append((*(behind.c[x] for x in at), behind.n[np.concatenate(at)], member))
    sizes = {int(n) for *_, ns, _ in parts for n in ns}
    if len(sizes) != 1:
        return None
    c_a, c_b = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    return c_a, c_b, sizes.pop(), [name for c, _, _, name in parts for _ in c]
