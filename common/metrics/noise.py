"""How far one further training run of the same settings would fall: the noise of a single run.

A run differs from another one by its seed, by the samples that were drawn, and, where the sets
differ, by their problems. Rules are in docs/evidence.md, "Single runs on a cluster".

**The seed.** No paper prints two runs of one setting (F-GRPO's second version repeats the runs of
its first; its four seeds are those of a simulation). `SEED_SD` is made of what bounds it:

- In print, runs that differ by one setting: the three gammas of each of F-GRPO's nine pairs (v2
  Table 6) scatter by 1.11 and 1.14 points of pass@1 and by 2.06 and 2.12 of pass@256 (math and
  OOD averages, 18 degrees of freedom each), the four baselines of over_sharpening by 0.48 points of
  AVG@8 and 0.47 of PASS@8 (Tables 2 and 3, averages, 9 each). What the settings do is in these, so
  they are upper bounds. Pooled: 1.03 for pass@1, 2.09 for pass@256; PASS@8 scatters as AVG@8.
- Our own seeds of the tiny model, within a base model, at the last step, five papers: 1.87 points
  of natural pass@1, 2.64 of natural and rare pass@64 and pass@256. The samples' noise is in these,
  and a model of 0.4 M parameters is less stable; print, at the papers' own scale, goes first.

Entropies, lengths and other means are no shares. Their seed effect is a share of the number: the
median over our ten laptop tables of the spread of natural token entropy is 0.09.

    pytest -s tests/metrics/test_noise.py

computes all of them. The seed effect of a run is taken to be the same on all benchmarks, so an
average over benchmarks has no less of it.
"""

import re
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from common.metrics.passk import pass_at_k_table

SEED_SD = {"small k": 1.0, "large k": 2.0}  # points
LARGE = 8  # a k above this is large
SEED_SHARE = 0.1  # of numbers that are no shares of problems
SHARE = re.compile(r"(?:avg|pass|bootstrap best)@(\d+)", re.IGNORECASE)


def seed_sd(metric: str, value: float, k: float = np.nan) -> float:
    """The standard deviation of a trained run's number over seeds, in its own unit: points of
    pass@k (percent), else a share of the number. avg@n is pass@1, whatever its n."""
    named = SHARE.match(str(metric))
    if named is None:
        return SEED_SHARE * abs(float(value))
    mean = str(metric).lower().startswith("avg")
    k = 1 if mean else int(named[1]) if np.isnan(k) else k
    return SEED_SD["large k" if k > LARGE else "small k"]


def sampling_variance(c: ArrayLike, n: int, k: int) -> np.ndarray:
    """The variance of each problem's pass@k over further draws of n samples, c of which were right:
    (P,), of a share in [0, 1].

    The chance to miss is estimated by m = C(n-c, k) / C(n, k), and E[m]^2 by
    C(n-c, 2k) / C(n, 2k), both without bias. So for n >= 2k

        variance = m^2 - C(n-c, 2k) / C(n, 2k)

    has none either; of one problem it may be negative, which a mean over problems evens out. With
    fewer samples it is the estimator's variance under Binomial(n, c / n), which is 0 where none or
    all were right, hence too small on average. With one sample nothing is known of a problem, and
    all problems get what one problem of their mean rate has, which is too large.
    """
    c = np.asarray(c, dtype=int)
    if n == 1:
        return np.full(c.shape, c.mean() * (1 - c.mean()))
    return sampling_variances(n, k)[c]


@cache
def sampling_variances(n: int, k: int) -> np.ndarray:
    """That of every count 0..n."""
    if n >= 2 * k:
        once, twice = 1 - pass_at_k_table(n, [k, 2 * k]).T
        return once**2 - twice
    values, right = pass_at_k_table(n, [k])[:, 0], np.arange(n + 1)
    chance = binom.pmf(right, n, right[:, None] / n)
    return chance @ values**2 - (chance @ values) ** 2


def sampling_sd(c: ArrayLike, n: int, k: int) -> float:
    """The standard deviation over further draws of a benchmark's mean pass@k, in points."""
    variance = sampling_variance(c, n, k)
    return float(100 * np.sqrt(max(variance.sum(), 0.0)) / len(variance))


def problem_variance(stderr: float, sampling: float) -> float:
    """The variance, in squared points, that a mean has because its problems were drawn: that of
    its standard error over problems, less what the samples add to it."""
    return max(stderr**2 - sampling**2, 0.0)
