"""The noise of single runs on a cluster, where a row has one run, as in the papers. Its spread over
seeds is taken from elsewhere (common/metrics/noise.py)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from common.claims.select import Found
from common.metrics.noise import seed_sd
from common.metrics.paired import Interval, of_variance, over_problems

ONE_RUN = "inconclusive (one run)"
KNOWN = 1e6  # degrees of freedom of a spread that is known, not estimated


def seed_of(row: pd.Series | dict) -> float:
    """Return the standard deviation over seeds of a row's number; 0 for an untrained model."""
    return 0.0 if row["step"] == 0 else seed_sd(row["metric"], row["value"], row["unit"])


def run_noise(terms: Sequence[tuple[float, Found]], assumed: float = 1.0) -> tuple[float, float]:
    """Return the variance of a weighted sum of found values if each had one further run on the same
    problems: what the seeds and what the samples contribute. assumed: multiplies the assumed
    standard deviations over seeds.

    The benchmarks of a run share the effect of its seed. Where that is a share of the number, it is
    a share of the metric's largest number here, because a drop near 0 is a difference of larger
    numbers. As numbers of a run then cancel, the larger of both sums counts.
    """
    samples, largest = 0.0, dict[str, float]()
    seeds: dict[tuple, np.ndarray] = {}  # run -> the sum of its effects, in both ways
    random = [(weight, *x.first_run) for weight, x in terms if x.seeds is not None]
    for row in (row for _, rows, _ in random for row in rows):
        largest[row["metric"]] = max(abs(row["value"]), largest.get(row["metric"], 0.0))
    for weight, rows, noise in random:
        share = weight / len(rows)
        samples += share**2 * noise
        for row in rows:
            run = tuple(row[name] for name in ("model", "method", "metric", "step"))
            both = (row, row | {"value": largest[row["metric"]]})
            seeds[run] = seeds.get(run, 0.0) + share * np.array([seed_of(one) for one in both])
    total = sum(abs(effect).max() ** 2 for effect in seeds.values())
    return assumed**2 * float(total), float(samples)


def single_interval(
    value: float,
    terms: Sequence[tuple[float, Found]],
    parts: Sequence[np.ndarray],
    strata: Sequence | None,
    seeds: int,
    assumed: float = 1.0,
) -> Interval:
    """Return the interval over problems (and samples) and over the known spread of `seeds` runs.
    Without `parts`, the squared standard errors of the sides are added."""
    if parts:
        one = over_problems(*parts, strata=strata)
        variance, df = one.stderr**2, one.df
    else:
        errors = [
            weight * np.sqrt((x.rows["stderr"].fillna(0) ** 2).sum()) / len(x.rows)
            for weight, x in terms
            if x.seeds is not None
        ]
        variance, df = float(np.square(errors).sum()), KNOWN
    total = variance + run_noise(terms, assumed)[0] / seeds
    df = min(total**2 * df / variance**2, KNOWN) if variance > 0 else KNOWN
    return of_variance(value, total, df)
