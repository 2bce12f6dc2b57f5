"""Positive controls: what a testbed has to show at a learning rate before claims may rest on it.

The controls were declared before any of their runs (docs/evidence.md). They are read on dev prompts
alone, at the last checkpoint of the curve that both sides of the comparison have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.comparison.matched import ACCURACY
from common.metrics.paired import two_way_interval
from papers.yardstick.areas import Runs
from papers.yardstick.curves import Curve
from papers.yardstick.protocol import BASE, DEV, GRPO, MARGIN, PRIMARY, speed

LOWER = "GRPO at the next lower rate"
COLUMNS = [
    *["rate", "control", "a", "b", "benchmark", "metric", "step", "margin"],
    *["difference", "low", "high", "n_seeds", "verdict"],
]


@dataclass(frozen=True)
class Control:
    says: str
    a: str  # a method, or LOWER
    b: str
    measure: tuple[str, str]
    margin: float = 0.0  # points that a may be below b


CONTROLS = (
    Control("RL raises pass@1", GRPO, BASE, ACCURACY),
    Control("DAPO is not below GRPO", "DAPO", GRPO, ACCURACY, MARGIN),
    Control("CISPO is not below GRPO", "CISPO", GRPO, ACCURACY, MARGIN),
    Control("a lower rate keeps diversity", LOWER, GRPO, PRIMARY),
    Control("a KL penalty keeps diversity", "KL", GRPO, PRIMARY),
    Control("32 responses beat 2", "GRPO (N=32)", "GRPO (N=2)", ACCURACY),
)


def controls(drawn: Sequence[Curve]) -> pd.DataFrame:
    """Return COLUMNS: a row for each control at each learning rate, fastest first. A control whose
    runs are missing has no numbers and the verdict "not run". The slowest rate has no control
    against the next lower rate.

    passes: the 95 % interval of a - b lies above -margin; fails: it lies below -margin; else
    open."""
    groups: dict[tuple[str, str], Runs] = {}
    for c in drawn:
        groups.setdefault((c.rate, c.method), {})[c.seed] = c
    rates = sorted({rate for rate, _ in groups}, key=speed, reverse=True)
    rows = []
    for rate, below in zip(rates, [*rates[1:], None], strict=True):
        for control in CONTROLS:
            if control.a == LOWER and below is None:
                continue
            first = (below, GRPO) if control.a == LOWER else (rate, control.a)
            b = groups.get((rate, GRPO if control.b == BASE else control.b), {})
            about: dict = {"rate": rate, "control": control.says, "a": control.a, "b": control.b}
            benchmark, metric = DEV + control.measure[0], control.measure[1]
            about |= {"benchmark": benchmark, "metric": metric, "margin": control.margin}
            rows.append(about | _judged(groups.get(first, {}), b, control, (benchmark, metric)))
    return pd.DataFrame(rows, columns=COLUMNS)


def carries(judged: pd.DataFrame) -> list[str]:
    """Return the learning rates at which every control passes."""
    passed = judged.groupby("rate", sort=False)["verdict"].agg(lambda x: (x == "passes").all())
    return [rate for rate, every in passed.items() if every]


def _judged(a: Runs, b: Runs, control: Control, measure: tuple[str, str]) -> dict:
    seeds = sorted(set(a) & set(b))
    if len(seeds) < MIN_SEEDS:
        return {"n_seeds": len(seeds), "verdict": "not run"}
    step = max(set.intersection(*(set(runs[s].steps.tolist()) for runs in (a, b) for s in seeds)))
    if step == 0:  # both have the base model alone in common
        return {"n_seeds": len(seeds), "verdict": "not run"}
    if control.b == BASE:
        gap = [_at(a[s], step, measure) - _at(a[s], 0, measure) for s in seeds]
    else:
        gap = [_at(a[s], step, measure) - _at(b[s], step, measure) for s in seeds]
    interval = two_way_interval(np.stack(gap))
    low, high = interval.bounds()
    found = "passes" if low > -control.margin else "fails" if high < -control.margin else "open"
    row = {"step": step, "difference": interval.value, "low": low, "high": high}
    return row | {"n_seeds": len(seeds), "verdict": found}


def _at(curve: Curve, step: int, measure: tuple[str, str]) -> np.ndarray:
    return curve.values[measure][int(np.flatnonzero(curve.steps == step)[0])]
