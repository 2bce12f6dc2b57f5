"""The yardstick's other tables: positive controls, and pass@k after the last step.

Positive controls are what a testbed has to show at a learning rate before claims may rest on it.
They were declared before any of their runs (docs/evidence.md), and are read on dev prompts alone,
at the last checkpoint of the curve that both sides of the comparison have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.comparison.matched import ACCURACY
from common.metrics.paired import two_way_interval
from common.metrics.passk import pass_at_k
from papers.yardstick.areas import (
    BASE,
    DEV,
    GRPO,
    LAST_KS,
    MARGIN,
    PRIMARY,
    RUN,
    Curve,
    Runs,
    require_same_problems,
    speed,
)

LOWER = "GRPO at the next lower rate"
OF_CONTROLS = [
    *["rate", "control", "a", "b", "benchmark", "metric", "step", "margin"],
    *["difference", "low", "high", "n_seeds", "verdict"],
]
OF_BASE = [
    *["rate", "method", "benchmark", "metric", "value", "low", "high"],
    *["difference", "difference_low", "difference_high", "p", "n_seeds"],
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
    """Return a row for each control at each learning rate, fastest first. A control whose
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
    return pd.DataFrame(rows, columns=OF_CONTROLS)


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


def against_base(rows: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return OF_BASE: pass@k (percent) of each method at each learning rate after its last step,
    with an interval of the share (`Interval.of_share`), and its difference from the base models of
    the same seeds, in points. Test prompts alone; no interval for fewer than three seeds. Raises
    UserError as `require_same_problems`."""
    require_same_problems(counts)
    last = counts[counts["step"] == counts.groupby(RUN)["step"].transform("max")]
    last = last[~last["benchmark"].str.startswith(DEV)]
    found = []
    for benchmark, part in last.sort_values("problem_id").groupby("benchmark"):
        shares = {
            run: 100 * pass_at_k(one["c"].to_numpy(), one["n"].to_numpy(), LAST_KS)
            for run, one in part.groupby(RUN)
        }
        start = {seed: x for (_, method, seed), x in shares.items() if method == BASE}
        groups: dict[tuple[str, str], list] = {}
        for rate, method, seed in rows[RUN].drop_duplicates().itertuples(index=False, name=None):
            if method != BASE and seed in start:
                groups.setdefault((rate, method), []).append(seed)
        for (rate, method), seeds in groups.items():
            x = np.stack([shares[rate, method, seed] for seed in seeds])  # (S, P, K)
            gap = x - np.stack([start[seed] for seed in seeds])
            about = {"rate": rate, "method": method, "benchmark": benchmark}
            for i, k in enumerate(LAST_KS):
                row = about | {"metric": f"pass@{k}", "n_seeds": len(seeds)}
                found.append(row | _numbers(x[..., i], gap[..., i]))
    return pd.DataFrame(found, columns=OF_BASE)


def _numbers(x: np.ndarray, gap: np.ndarray) -> dict[str, float]:
    numbers = {"value": x.mean(), "difference": gap.mean()}
    if len(x) < MIN_SEEDS:
        return numbers
    low, high = two_way_interval(x).of_share(x.shape[1])
    interval = two_way_interval(gap)
    ends = interval.of_difference(x.mean() - gap.mean())
    numbers |= dict(zip(("difference_low", "difference_high"), ends, strict=True))
    return numbers | {"low": low, "high": high, "p": interval.p()}
