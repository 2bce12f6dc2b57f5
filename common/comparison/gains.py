"""Gains: for each printed pair of a method and its baseline, the rerun's gain and the printed one.

`p_samples` is F-GRPO's App. I: do these two finished models differ when samples are drawn again? It
does not account for seeds, so verdicts do not rest on it.
"""

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.claims.judge import Find, finder
from common.claims.select import Found, Missing
from common.claims.single import KNOWN
from common.comparison.cells import (
    by_cell,
    not_reproducible,
    other_problems,
    rounding,
    run_variance,
)
from common.comparison.spec import Spec
from common.metrics.noise import shrunk
from common.metrics.paired import Interval, subsampling_test

PLACE = ["table", "model", "benchmark", "metric"]
COLUMNS = [
    *["table", "model", "method", "baseline", "benchmark", "metric", "k", "unit", "printed"],
    *["rerun", "low", "high", "p_samples", "n_seeds", "mdd", "verdict", "run_ids"],
]
DRAWS = 50_000  # of F-GRPO's App. I
AGREES, SMALLER, LARGER = "agrees", "smaller", "larger"
OPPOSITE, CANNOT_TELL, NOT_RUN = "opposite", "cannot tell", "not run"
VERDICTS = (AGREES, SMALLER, LARGER, OPPOSITE, CANNOT_TELL, NOT_RUN)


def gains(
    spec: Spec, printed: pd.DataFrame, rerun: pd.DataFrame, counts: pd.DataFrame | None
) -> pd.DataFrame:
    """Return COLUMNS for every pair of `Spec.gains` that a table prints, in the number's own unit.

    rerun, counts: those of the cluster, as printed (cells.as_printed). low, high: where the gain of
    one further pair of runs, such as the printed one, would lie with 95 %, widened by the rounding
    of the printed numbers. mdd: the smallest gain that such reruns detect four times in five.
    """
    measured, rows = by_cell(rerun), []
    find = finder(rerun, counts, spec.averages) if len(rerun) and counts is not None else None
    for one in printed_pairs(spec, printed).to_dict("records"):
        place, of = (one["table"], one["model"]), (one["benchmark"], one["metric"])
        keys = [(*place, one[name], *of) for name in ("method", "baseline")]
        sides = [measured[key] for key in keys if key in measured]
        found = _gain(spec, one, *sides) if len(sides) == 2 else {"verdict": NOT_RUN}
        p = _p_samples(one, find) if len(sides) == 2 and find else np.nan
        rows.append(one | found | {"p_samples": p})
    return pd.DataFrame(rows, columns=COLUMNS)


def printed_pairs(spec: Spec, printed: pd.DataFrame) -> pd.DataFrame:
    """Return the printed pairs that can be rerun, with their printed gain and its `rounding`."""
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
    rerun's differs from 0 (p < 0.05) with the printed sign, else "cannot tell". If it lies outside:
    "opposite" where the rerun's differs from 0 with the other sign, "larger" where it is farther
    from 0 and not of the other sign, else "smaller"."""
    there = rerun.p(0) < 0.05
    if low - 1e-9 <= printed <= high + 1e-9:
        return AGREES if there and rerun.value * printed > 0 else CANNOT_TELL
    if there and rerun.value * printed < 0:
        return OPPOSITE
    beyond = abs(rerun.value) > abs(printed) and rerun.value * printed >= 0
    return LARGER if beyond else SMALLER


def _gain(spec: Spec, one: dict, a: list[dict], b: list[dict]) -> dict:
    """Return the rerun's gain, its interval and its verdict; MIN_SEEDS shared seeds are paired."""
    values_a, values_b = ({row["seed"]: row["value"] for row in x} for x in (a, b))
    both = sorted(set(values_a) & set(values_b))
    printed_problems = spec.own_problems.get(one["benchmark"])
    apart = sum(other_problems(x[0], printed_problems) for x in (a, b))
    difference = np.array([values_a[seed] - values_b[seed] for seed in both])
    variance = run_variance(a[0]) + run_variance(b[0])
    if len(both) >= MIN_SEEDS:
        seeds, value = len(both), float(difference.mean())
        variance, df = shrunk(difference.var(ddof=1), seeds - 1, variance)
    else:
        seeds, df = min(len(a), len(b)), KNOWN
        value = float(np.mean([*values_a.values()]) - np.mean([*values_b.values()]))
    rerun = Interval(value, float(np.sqrt(variance / seeds)), df)
    further = Interval(value, float(np.sqrt(variance * (1 + 1 / seeds) + apart)), df)
    half = further.half() + one["rounding"]
    low, high = value - half, value + half
    runs = ";".join(dict.fromkeys(str(row["run_id"]) for x in (a, b) for row in x))
    found = {"rerun": value, "low": low, "high": high, "n_seeds": seeds, "run_ids": runs}
    word = verdict(one["printed"], low, high, rerun)
    return found | {"mdd": rerun.detectable(), "verdict": word}


def _p_samples(one: dict, find: Find) -> float:
    """Return `subsampling_p` of a pair; NaN where an average lacks a benchmark."""
    place = {name: None if pd.isna(one[name]) else one[name] for name in PLACE}
    sides = [place | {"method": one[name]} for name in ("method", "baseline")]
    try:
        return subsampling_p(*(find(f"gain of {one['method']}", side) for side in sides))
    except Missing:
        return np.nan


def subsampling_p(a: Found, b: Found) -> float:
    """Return the p-value of F-GRPO's App. I test of a - b, for n >= 2k, with DRAWS of m = n / 4 of
    the n samples and the shared seeds' problems together; NaN where it does not apply."""
    if a.counts is None or b.counts is None or (a.n, a.k, a.problems) != (b.n, b.k, b.problems):
        return np.nan
    shared = sorted(set(a.seeds) & set(b.seeds))
    if not shared or a.n < 2 * a.k:
        return np.nan
    c_a, c_b = (np.concatenate([x.counts[x.seeds.index(seed)] for seed in shared]) for x in (a, b))
    strata = [benchmark for benchmark, _ in a.problems] * len(shared)
    m = max(a.k, a.n // 4)
    (test,) = subsampling_test(
        c_a, c_b, n=a.n, ks=[a.k], m=m, iterations=DRAWS, seed=0, strata=strata
    )
    return float(test["p"])
