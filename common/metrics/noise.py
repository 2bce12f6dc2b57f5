"""The noise of a single training run: how far another run with the same settings would differ.

Two runs differ in their seeds, in their samples and, if the benchmarks differ, in the problems. The
rules are in docs/evidence.md, "Single runs on a cluster".

**The seed.** No paper prints two runs of one setting (F-GRPO's second version repeats the runs of
its first; its four seeds belong to a simulation). These numbers bound `SEED_SD`:

- Published runs that differ in one setting, upper bounds because the setting has its effect too.
  The three gammas of F-GRPO's nine pairs (v2 Table 6) scatter by 1.11 and 1.14 points of pass@1
  and by 2.06 and 2.12 of pass@256 (math and OOD averages, 18 degrees of freedom each); the four
  baselines of over_sharpening by 0.48 points of AVG@8 and 0.47 of PASS@8 (Tables 2 and 3,
  averages, 9 each). Pooled: 1.03 for pass@1, 2.09 for pass@256; PASS@8 scatters as AVG@8 does.
- Our own runs of the study, together with the effect of the seed's base model, at the last step:
  1.45 points of natural pass@1, 2.70 of natural and rare pass@64 and pass@256. These include the
  samples' noise, and a 0.4 M model is less stable, so the published numbers take precedence.

In between it is linear in log k: runs that move by 1 and 2 points at pass@1 and pass@256, smoothly
in their problems' log odds, move by about 1.3 at pass@8.

Entropies, lengths and other means are not shares of problems. Their seed effect is a fraction of
the number itself: the median spread of natural token entropy was 0.09 over ten earlier tables and
is 0.04 over the study's methods. `pytest -s tests/metrics/test_noise.py` computes these numbers. A
run's seed effect is taken to be the same on all benchmarks, so averaging does not reduce it.

**The step of a peak** is the end of the highest plateau (`plateau_step`). On a saturated curve the
samples choose it: the peaks of equal curves (454 problems, 8 samples, 40 evaluations) scatter by
10 % if they saturate with a time constant of a fifth of the run, by 22 % at a tenth and 33 % at a
twentieth. `STEP_SHARE` is the fraction of the larger of two steps at which at most 5 % of pairs of
equal curves differ by more than 1.96 sqrt(2) of it, for every time constant from one evaluation on.
tests/metrics/test_noise.py simulates it.
"""

from functools import cache
from math import log

import numpy as np
from numpy.typing import ArrayLike

from common.metrics.passk import estimate, estimator, pass_at_k_table

SEED_SD = {"small k": 1.0, "large k": 2.0}  # points, of k = 1 and of k = LARGE and above
LARGE = 256
SEED_SHARE = 0.1  # as a fraction of a number that is no share of problems
STEP_SHARE = 0.3  # as a fraction of the step of a peak
PRIOR = 6  # degrees of freedom that these assumptions count for beside the spread of several runs
PEAK = "steps_to_peak"  # the metric of that step


def seed_sd(metric: str, value: float, unit: str = "") -> float:
    """Return the standard deviation over seeds of a trained run's number, in its unit: points for
    pass@k and best@k (percent), linear in log k, else a fraction of the number, which for a
    percentage is at most half of what is left to 100."""
    of = estimator(str(metric))
    if of is None:
        sd = (STEP_SHARE if metric == PEAK else SEED_SHARE) * abs(float(value))
        return min(sd, max(100 - value, 0) / 2) if unit == "percent" else sd
    small, large = SEED_SD.values()
    return small + (large - small) * min(log(of[1]) / log(LARGE), 1)


def shrunk(variance: float, df: float, assumed: float) -> tuple[float, float]:
    """Return an estimated variance (df degrees of freedom) drawn towards the `assumed` variance,
    which counts for PRIOR, and the new degrees of freedom."""
    return (PRIOR * assumed + df * variance) / (PRIOR + df), PRIOR + df


def sampling_variance(c: ArrayLike, n: int, of: tuple[str, int]) -> np.ndarray:
    """Return the variance of each problem's pass@k or best@k (`passk.estimator`), a share in
    [0, 1], over further draws of n samples, if c of n were right: (P,).

    The probability of a miss is estimated by m = C(n-c, k) / C(n, k), and E[m]^2 by C(n-c,
    2k) / C(n, 2k), both without bias. So for n >= 2k

        variance = m^2 - C(n-c, 2k) / C(n, 2k)

    is unbiased too. It may be negative for one problem, which a mean over problems evens out. With
    fewer samples, and for best@k, it is the estimator's variance under Binomial(n, c / n), which is
    0 if none or all were right, hence too small on average. With n = 1 every problem gets the
    variance of a problem with their mean rate, which is too large.
    """
    c = np.asarray(c, dtype=int)
    if n == 1:
        return np.full(c.shape, c.mean() * (1 - c.mean()))
    return sampling_variances(n, of)[c]


@cache
def sampling_variances(n: int, of: tuple[str, int]) -> np.ndarray:
    """Return the `sampling_variance` of every count 0..n."""
    name, k = of
    if name == "pass" and n >= 2 * k:
        once, twice = 1 - pass_at_k_table(n, [k, 2 * k]).T
        return once**2 - twice
    from scipy.stats import binom  # takes a second to load, and few comparisons come here

    right = np.arange(n + 1)
    values = estimate(of, right, n)
    chance = binom.pmf(right, n, right[:, None] / n)
    return chance @ values**2 - (chance @ values) ** 2


def sampling_sd(c: ArrayLike, n: int, of: tuple[str, int]) -> float:
    """Return the standard deviation over further draws of a benchmark's mean, in points."""
    variance = sampling_variance(c, n, of)
    return float(100 * np.sqrt(max(variance.sum(), 0.0)) / len(variance))


def problem_variance(stderr: float, sampling: float) -> float:
    """Return the variance of a mean, in squared points, over the draw of its problems: its squared
    standard error less what the samples add to it."""
    return max(stderr**2 - sampling**2, 0.0)
