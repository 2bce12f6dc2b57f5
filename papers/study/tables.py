"""The study's tables: positive controls, and what each method keeps compared with GRPO.

Positive controls are what a testbed has to show at a learning rate before claims may rest on it.
They were declared before any of their runs (docs/evidence.md), and are read only on dev prompts, at
the last checkpoint that both sides of the comparison have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.comparison.frontier import (
    ACCURACY,
    ANSWERS,
    BASE,
    DEV,
    DIVERSITY,
    FEW,
    GRPO,
    LOWER,
    RATE,
    Curve,
    Runs,
    areas,
)
from common.metrics.bootstrap import holm
from common.metrics.paired import seed_means, two_way_interval

RunsByMethod = dict[tuple[str, str], Runs]  # (rate, method) -> its runs
MARGIN = 3.0  # points that DAPO and CISPO may be below GRPO
LOWER_RATE = "GRPO at the next lower rate"
CONTROLS = [
    *["rate", "control", "a", "b", "benchmark", "metric", "step", "margin"],
    *["difference", "low", "high", "n_seeds", "verdict"],
]
EFFECTS = (0, 2, 4)  # points; p comes with the probability that an effect is above each
NUMBERS = ["difference", "low", "high", "p", *(f"p_above_{x}" for x in EFFECTS)]
NUMBERS += ["levels", "mean_levels"]  # at equal pass@1: those that were read, over all seeds
METHODS = ["rate", "method", "reading", "against", "benchmark", "metric", *NUMBERS]
METHODS += ["p_holm", "n_seeds"]
LAST, EQUAL = "after the last step", "at equal pass@1"  # readings of METHODS
MEASURES = (ACCURACY, DIVERSITY, FEW, ("natural", "pass@256"), ANSWERS)  # after the last step


@dataclass(frozen=True)
class Control:
    says: str
    a: str  # a method, or LOWER_RATE
    b: str
    measure: tuple[str, str]
    margin: float = 0.0  # points that a may be below b


DECLARED = (
    Control("RL raises pass@1", GRPO, BASE, ACCURACY),
    Control("DAPO is not below GRPO", "DAPO", GRPO, ACCURACY, MARGIN),
    Control("CISPO is not below GRPO", "CISPO", GRPO, ACCURACY, MARGIN),
    Control("a lower rate keeps diversity", LOWER_RATE, GRPO, DIVERSITY),
    Control("a KL penalty keeps diversity", "KL", GRPO, DIVERSITY),
    Control("32 responses beat 2", "GRPO (N=32)", "GRPO (N=2)", ACCURACY),
)


def controls(found: RunsByMethod) -> pd.DataFrame:
    """Return a row for each control at each learning rate that has one, fastest first. passes: the
    95 % interval of a - b lies above -margin; fails: it lies below -margin; else open, or "not
    run"."""
    rates = sorted({rate for rate, _ in found}, key=lambda rate: float(rate.removeprefix("lr ")))
    rates.reverse()
    rows = []
    for rate, below in zip(rates, [*rates[1:], None], strict=True):
        if below is None and not any((rate, one.a) in found for one in DECLARED[1:]):
            continue  # GRPO's lowest rate, which is only compared with
        for control in DECLARED:
            first = (below, GRPO) if control.a == LOWER_RATE else (rate, control.a)
            b = found.get((rate, GRPO if control.b == BASE else control.b), {})
            about: dict = {"rate": rate, "control": control.says, "a": control.a, "b": control.b}
            benchmark, metric = DEV + control.measure[0], control.measure[1]
            about |= {"benchmark": benchmark, "metric": metric, "margin": control.margin}
            rows.append(about | _judged(found.get(first, {}), b, control, (benchmark, metric)))
    return pd.DataFrame(rows, columns=CONTROLS)


def _judged(a: Runs, b: Runs, control: Control, measure: tuple[str, str]) -> dict:
    seeds = sorted(set(a) & set(b))
    shared = [set(runs[s].steps) for runs in (a, b) for s in seeds]
    step = max(set.intersection(*shared)) if len(seeds) >= MIN_SEEDS else 0
    if step == 0:  # too few seeds, or only base models in common
        return {"n_seeds": len(seeds), "verdict": "not run"}
    base = 0 if control.b == BASE else step
    gap = [_at(a[s], step, measure) - _at(b[s], base, measure) for s in seeds]
    interval = two_way_interval(np.stack(gap))
    low, high = interval.bounds()
    known = interval.stderr > 0  # without spread there is no interval, and the value decides
    found = "passes" if low > -control.margin else "fails" if high < -control.margin else "open"
    row = {"step": int(step), "difference": interval.value}
    row |= {"low": low, "high": high} if known else {}
    return row | {"n_seeds": len(seeds), "verdict": found}


def methods(found: RunsByMethod) -> pd.DataFrame:
    """Return METHODS: what each method at the study's rate has beyond GRPO at that rate and beyond
    GRPO one rate lower, after the last step (MEASURES) and at equal pass@1 (DIVERSITY); the same of
    GRPO's other rates; and what all of these have beyond the base model. `p_holm` is corrected over
    the methods of one reading. Without enough seeds a row has no numbers."""
    names = [name for rate, name in found if rate == RATE and name != GRPO]
    asked = [(RATE, name) for name in names]
    own = [key for key in found if key[1] == GRPO and key[0] != RATE]
    rows = []
    for keys, against in (
        (asked, (RATE, GRPO)),
        (asked, (LOWER, GRPO)),
        (own, (RATE, GRPO)),
        ([key for key in (*asked, (RATE, GRPO), *own) if key in found], None),
    ):
        readings = [(LAST, measure) for measure in MEASURES]
        readings += [(EQUAL, DIVERSITY)] if against else []
        for reading, measure in readings:
            part = []
            for rate, name in keys:
                about = {"rate": rate, "method": name, "reading": reading}
                about |= dict(zip(("benchmark", "metric"), measure, strict=True))
                about["against"] = " ".join(reversed(against)) if against else BASE
                other = found.get(against, {}) if against else None
                part.append(about | _beyond(found[rate, name], other, reading, measure))
            corrected = holm(np.array([row.get("p", np.nan) for row in part], dtype=float))
            rows += [row | {"p_holm": p} for row, p in zip(part, corrected, strict=True)]
    return pd.DataFrame(rows, columns=METHODS)


def _beyond(a: Runs, b: Runs | None, reading: str, measure: tuple[str, str]) -> dict:
    """Return NUMBERS of a - b, or of a minus its base models where `b` is None, with the seeds."""
    strata, read = None, []
    if reading == EQUAL:
        (first, second), able = areas((a, b or {}), measure)
        pairs = [(first[s].values, second[s].values) for s in first] if able else []
        strata = next((one.strata for one in first.values()), None)
        read = [one.levels for one in first.values()]
    elif b is None:
        pairs = [(x[-1], x[0]) for x in (one.values[measure] for one in a.values())]
    else:
        shared = sorted({*a} & {*b})
        pairs = [(a[s].values[measure][-1], b[s].values[measure][-1]) for s in shared]
    if len(pairs) < MIN_SEEDS:
        return {"n_seeds": len(pairs)}
    first, second = (np.stack(side) for side in zip(*pairs, strict=True))
    interval = two_way_interval(first - second, strata=strata)
    shown = [interval.value, *interval.of_difference(seed_means(second, strata).mean())]
    shown += [interval.p(), *(interval.above(effect) for effect in EFFECTS)]
    if read:
        span = f"+{min(min(x) for x in read)} to +{max(max(x) for x in read)}"
        shown += [span, np.mean([len(x) for x in read])]
    return {"n_seeds": len(pairs)} | dict(zip(NUMBERS, shown, strict=False))


def _at(curve: Curve, step: int, measure: tuple[str, str]) -> np.ndarray:
    return curve.values[measure][curve.steps == step][0]
