"""The study's tables: positive controls, and what each method keeps compared with GRPO.

Positive controls are what a testbed has to show at a learning rate before claims may rest on it.
They were declared before any of their runs (docs/evidence.md; PROTOCOL.md), and are read only on
dev prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.comparison.frontier import (
    ACCURACY,
    ANSWERS,
    ANSWERS_64,
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
LOWER_RATE, FASTER = "GRPO at the next lower rate", "GRPO at 1e-4"
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
EARLY = "by a third of the steps"  # of the confirmatory study; post hoc
MEASURES = (ACCURACY, DIVERSITY, FEW, ("natural", "pass@256"), ANSWERS)  # after the last step
# of the confirmatory study: those of PROTOCOL.md, and accuracy on rare prompts, which is post hoc
RARE_ACCURACY = ("rare", "pass@1")
MORE = (*MEASURES, ("natural", "pass@64"), RARE_ACCURACY)
MORE_EQUAL = (DIVERSITY, ("natural", "pass@64"), FEW, ANSWERS_64, RARE_ACCURACY)


@dataclass(frozen=True)
class Control:
    says: str
    a: str  # a method, or LOWER_RATE
    b: str  # a method, BASE or FASTER
    measure: tuple[str, str]
    margin: float = 0.0  # points that a may be below b
    equal: bool = False  # at equal pass@1, else at the last checkpoint that both sides have
    alike: bool = False  # a may be above b by `margin` at most, too
    told_apart: bool = False  # the same numbers on both sides are no pass


DECLARED = (
    Control("RL raises pass@1", GRPO, BASE, ACCURACY),
    Control("DAPO is not below GRPO", "DAPO", GRPO, ACCURACY, MARGIN),
    Control("CISPO is not below GRPO", "CISPO", GRPO, ACCURACY, MARGIN),
    Control("a lower rate keeps diversity", LOWER_RATE, GRPO, DIVERSITY),
    Control("a KL penalty keeps diversity", "KL", GRPO, DIVERSITY),
    Control("32 responses beat 2", "GRPO (N=32)", "GRPO (N=2)", ACCURACY),
)
SLOWER = Control("a lower rate keeps diversity", GRPO, FASTER, DIVERSITY, equal=True)
SLOW = Control(
    "a slow learner keeps nothing", "GRPO (N=2)", GRPO, DIVERSITY, 2.0, equal=True, alike=True
)
KL = replace(DECLARED[4], equal=True)
CONFIRMATORY = tuple(
    replace(one, told_apart=True) for one in (*DECLARED[:3], KL, SLOWER, DECLARED[5], SLOW)
)


def controls(found: RunsByMethod, declared: Sequence[Control] = DECLARED) -> pd.DataFrame:
    """Return a row for each control at each learning rate that has one, fastest first. passes: the
    95 % interval of a - b lies above -margin (`alike`: inside +-margin); fails: it lies below
    -margin (outside +-margin); "identical": both sides are the same in every number; else open, or
    "not run"."""
    found = {key: {seed: _on_dev(run) for seed, run in of.items()} for key, of in found.items()}
    rates = sorted({rate for rate, _ in found}, key=lambda rate: float(rate.removeprefix("lr ")))
    rates.reverse()
    rows = []
    for rate, below in zip(rates, [*rates[1:], None], strict=True):
        if {method for at, method in found if at == rate} == {GRPO}:
            continue  # a rate that is only compared with
        for control in declared:
            first = (below, GRPO) if control.a == LOWER_RATE else (rate, control.a)
            second = (rate, GRPO if control.b == BASE else control.b)
            b = found.get(("lr 1e-4", GRPO) if control.b == FASTER else second, {})
            about: dict = {"rate": rate, "control": control.says, "a": control.a, "b": control.b}
            benchmark, metric = DEV + control.measure[0], control.measure[1]
            about |= {"benchmark": benchmark, "metric": metric, "margin": control.margin}
            rows.append(about | _judged(found.get(first, {}), b, control))
    return pd.DataFrame(rows, columns=CONTROLS)


def _on_dev(run: Curve) -> Curve:
    values = {
        (name.removeprefix(DEV), metric): value
        for (name, metric), value in run.values.items()
        if name.startswith(DEV)
    }
    return replace(run, values=values)


def _judged(a: Runs, b: Runs, control: Control) -> dict:
    seeds, strata = sorted(set(a) & set(b)), None
    row: dict = {"n_seeds": len(seeds), "verdict": "not run"}
    shared = [set(runs[s].steps) for runs in (a, b) for s in seeds]
    step = max(set.intersection(*shared)) if len(seeds) >= MIN_SEEDS else 0
    if step == 0:  # too few seeds, or only base models in common
        return row
    if control.equal:
        (first, second), able = areas((a, b), control.measure)
        if not able:
            return row | {"n_seeds": len(first), "verdict": "open"}
        strata = next(iter(first.values())).strata
        gap = [first[s].values - second[s].values for s in first]
        row["n_seeds"] = len(first)
    else:
        base = 0 if control.b == BASE else step
        gap = [_at(a[s], step, control.measure) - _at(b[s], base, control.measure) for s in seeds]
        row["step"] = int(step)
    interval = two_way_interval(np.stack(gap), strata=strata)
    low, high = interval.bounds()
    known = interval.stderr > 0  # without spread there is no interval, and the value decides
    top = control.margin if control.alike else np.inf
    passes = low > -control.margin and high < top
    fails = high < -control.margin or low > top
    row["verdict"] = "passes" if passes else "fails" if fails else "open"
    if control.told_apart and not np.any(gap):
        row["verdict"] = "identical"
    row |= {"difference": interval.value}
    return row | ({"low": low, "high": high} if known else {})


def methods(
    found: RunsByMethod, last: Sequence = MEASURES, equal: Sequence = (DIVERSITY,)
) -> pd.DataFrame:
    """Return METHODS: what each method at the study's rate has beyond GRPO at that rate and beyond
    GRPO one rate lower, after the `last` step and at `equal` pass@1 (measures); the same of GRPO's
    other rates; and what all of these have beyond the base model. `p_holm` is corrected over the
    methods of one reading. Without enough seeds a row has no numbers."""
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
        readings = [(LAST, measure) for measure in last]
        readings += [(EQUAL, measure) for measure in equal] if against else []
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


def early(found: RunsByMethod) -> pd.DataFrame:
    """Return METHODS at the last checkpoint in the first third of each run's steps."""
    cut = {key: {seed: _third(run) for seed, run in of.items()} for key, of in found.items()}
    return methods(cut, (ACCURACY, RARE_ACCURACY, DIVERSITY), ()).assign(reading=EARLY)


def _third(run: Curve) -> Curve:
    kept = run.steps <= run.steps[-1] / 3
    values = {measure: of[kept] for measure, of in run.values.items()}
    return replace(run, steps=run.steps[kept], values=values)


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
