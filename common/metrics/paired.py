"""Is one model better than another on the same problems? Two tests with different questions.

`subsampling_test` (F-GRPO App. I) asks whether two finished models differ when m samples per
problem are drawn again; problems and trained models are fixed. `two_way_interval` asks whether two
methods differ when training seeds and problems are drawn again; it decides the claims about reruns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, stdtr, stdtridf, stdtrit

from common.errors import UserError
from common.metrics.bootstrap import percentile_interval
from common.metrics.noise import shrunk
from common.metrics.passk import pass_at_k, pass_at_k_table

SLOTS = 1 << 16  # entries of a look-up table that 16 random bits index


@dataclass(frozen=True)
class Interval:
    """An estimate with a t distribution: its value, standard error and degrees of freedom."""

    value: float
    stderr: float
    df: float

    def bounds(self) -> tuple[float, float]:
        """Return the ends of the 95 % interval."""
        return self.value - self.half(), self.value + self.half()

    def ends(self) -> tuple[float, float]:
        """Return `bounds`; NaN without spread, because there is nothing to judge by."""
        return self.bounds() if self.stderr != 0 else (np.nan, np.nan)

    def half(self) -> float:
        return stdtrit(self.df, 0.975) * self.stderr

    def of_difference(self, start: float) -> tuple[float, float]:
        """Return `ends` of a percentage minus `start`, cut where it would leave 0..100."""
        low, high = self.ends()
        if np.isnan(low):
            return low, high
        return max(low, min(self.value, -start)), min(high, max(self.value, 100 - start))

    def p(self, null: float = 0.0) -> float:
        """Return the two-sided p-value of value = null; without spread 1 if equal, else 0."""
        if self.stderr == 0:
            return float(abs(self.value - null) < 1e-9)
        return float(2 * stdtr(self.df, -abs(self.value - null) / self.stderr))

    def above(self, effect: float) -> float:
        """Return the probability that the truth is above `effect` under a flat prior."""
        known = self.stderr > 0
        return float(stdtr(self.df, (self.value - effect) / self.stderr)) if known else np.nan

    def detectable(self) -> float:
        """Return the minimum detectable difference, (t_df(0.975) + t_df(0.8)) stderr: how far the
        truth must be from the null for p < 0.05 in 80 % of repetitions."""
        return float((stdtrit(self.df, 0.975) + stdtrit(self.df, 0.8)) * self.stderr)


def of_variance(value: float, variance: float, df: float) -> Interval:
    """Return the interval of an estimate; without spread where its variance is only rounding."""
    if variance < 1e-24:
        return Interval(float(value), 0.0, 1.0)
    return Interval(float(value), float(np.sqrt(variance)), float(df))


def two_way_interval(
    *parts: np.ndarray, strata: Sequence | None = None, assumed: float | None = None
) -> Interval:
    """Return an interval of the mean over seeds and problems of a sum of parts, with both random.

    Each part holds one value per (seed, problem), shape (S_i, P), with the same problems in the
    same order; seeds are independent between the parts. Two methods that ran with the same seeds
    are one part, x - y; with different seeds they are two parts, x and -y. Statistics without
    problems have P = 1: then only the seeds are random. `strata` (P,) names each problem's
    benchmark; the estimate is the plain mean over benchmarks.

        var = A + B - C, floored at max(A, B)
        A = sum_i  var over seeds of the seed means / S_i
        B = sum_b  var over problems of the summed problem means / (P_b n_b^2)
        C = sum_i,b  interaction mean square / (S_i P_b n_b^2)

    with n_b benchmarks. A and B both contain the interaction, so C is subtracted once. A has
    Welch's df_A over the parts (S_i - 1 each), B the same over benchmarks (P_b - 1 each); the t
    quantile is Banerjee's (1960), which covers at least as often as it claims:

        t_df^2 var = t_A^2 A + t_B^2 (var - A)        at level 0.95; df is the one that gives t_df

    With an `assumed` variance of one run's sum, A and df_A are drawn towards it (noise.shrunk). A
    benchmark of one problem counts as fixed. On simulated data without a difference, 3 or 5 seeds x
    30 or 500 problems, the interval excludes 0 in 1-6 % of cases, 3-4 % on average (with
    Satterthwaite's df in up to 9 %, a two-way percentile bootstrap 16 %, a t interval over seeds
    24 %). Raises UserError for a part with one seed, another shape or NaN.
    """
    problems = parts[0].shape[1]
    for part in parts:
        if part.ndim != 2 or part.shape[1] != problems or not np.isfinite(part).all():
            raise UserError(f"values of shape {part.shape}: need (seeds, {problems}) without NaN")
        if len(part) < 2:
            raise UserError("one seed has no spread over seeds; run at least two, better five")
    members = _members(problems, strata)
    means = [seed_means(part, strata) for part in parts]
    value = sum(one.mean() for one in means)
    over_seeds = [(x.var(ddof=1) / len(x), len(x) - 1) for x in means]
    summed = np.sum([part.mean(axis=0) for part in parts], axis=0)
    c = 0.0
    for rows in members:
        size = rows.sum()
        for part in parts if size > 1 else ():
            x = part[:, rows]
            rest = x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean()
            df = (len(x) - 1) * (size - 1)
            c += (rest**2).sum() / (df * len(x) * size * len(members) ** 2)
    (a, df_a), (b, df_b) = _welch(over_seeds), _welch(_problem_terms(summed, members))
    if assumed is not None:
        a, df_a = shrunk(a, df_a, assumed / min(map(len, parts)))
    variance = max(a + b - c, a, b)
    squared = stdtrit(df_a, 0.975) ** 2 * a + stdtrit(df_b, 0.975) ** 2 * (variance - a)
    df = stdtridf(0.975, np.sqrt(squared / variance)) if variance > a else df_a
    return of_variance(value, variance, df)


def seed_means(part: np.ndarray, strata: Sequence | None = None) -> np.ndarray:
    """Return each seed's plain mean over benchmarks of the mean over problems, (S, P) -> (S,)."""
    members = _members(part.shape[1], strata)
    return np.mean([part[:, rows].mean(axis=1) for rows in members], axis=0)


def _members(problems: int, strata: Sequence | None) -> list[np.ndarray]:
    labels, groups = np.unique(
        np.zeros(problems) if strata is None else strata, return_inverse=True
    )
    return [groups == index for index in range(len(labels))]


def over_problems(*parts: np.ndarray, strata: Sequence | None = None) -> Interval:
    """Return an interval of the mean over problems of a sum of parts, with the runs taken as fixed:
    for single runs, whose spread over seeds is unknown. Parts, strata and degrees of freedom are as
    in `two_way_interval`, whose B is the variance."""
    summed = np.sum([part.mean(axis=0) for part in parts], axis=0)
    members = _members(len(summed), strata)
    value = np.mean([summed[rows].mean() for rows in members])
    return of_variance(value, *_welch(_problem_terms(summed, members)))


def _problem_terms(summed: np.ndarray, members: list[np.ndarray]) -> list[tuple[float, float]]:
    values = [summed[rows] for rows in members]
    return [(x.var(ddof=1) / (len(x) * len(values) ** 2), len(x) - 1) for x in values if len(x) > 1]


def _welch(terms: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of independent variance estimates and its degrees of freedom."""
    total, squares = sum(term for term, _ in terms), sum(term**2 / df for term, df in terms)
    return total, total**2 / squares if squares > 0 else 1.0


def subsampling_test(
    c_a: ArrayLike,
    c_b: ArrayLike,
    *,
    n: int,
    ks: Sequence[int],
    m: int,
    iterations: int,
    seed: int,
    strata: Sequence | None = None,
) -> list[dict]:
    """Test a - b by paired m-out-of-n subsampling (F-GRPO App. I: n=1024, m=256, 50,000 draws).

    Each iteration draws m of the n samples of every problem without replacement, for both models,
    and takes the difference of their mean pass@k; c_a, c_b (P,) are correct counts on the same
    problems. The number correct among the m is hypergeometric(c, n-c, m), so counts are drawn, not
    samples: the distribution is exact up to double rounding. `strata` (P,) names each problem's
    benchmark: the mean is then the plain mean over benchmarks.

    Returns one row per k, in percent: a, b, difference (from all n samples, which is the mean of
    the draws), low, high (2.5 and 97.5 percentile of the draws, NaN where all are alike) and p = 2
    min(P(d <= 0), P(d >= 0)) with one added to each count, so p is never below 2/(iterations+1). As
    in the paper, the spread is not scaled from m to n samples and leaves out problems and training
    seeds. Raises UserError for m >= n, k > m, counts out of 0..n or unequal lengths.
    """
    c_a, c_b = np.asarray(c_a), np.asarray(c_b)
    if not 1 <= m < n:
        raise UserError(f"m={m}: must be below n={n} samples a problem; take m={max(n // 4, 1)}")
    if max(ks) > m:
        raise UserError(f"k={max(ks)}: pass@k of a subsample needs k <= m={m}; drop it or raise m")
    if iterations < 1:
        raise UserError(f"iterations={iterations}: must be at least 1")
    if c_a.shape != c_b.shape or not c_a.size:
        raise UserError(
            f"a has {c_a.size} problems, b {c_b.size}: give the same problems, at least one"
        )
    members = _members(c_a.size, strata)
    full_a, full_b = (
        np.mean([100 * pass_at_k(c[rows], n, ks).mean(axis=0) for rows in members], axis=0)
        for c in (c_a, c_b)
    )
    draws = [
        np.mean([_drawn(c[rows], n, ks, m, iterations, (seed, side)) for rows in members], axis=0)
        for side, c in enumerate((c_a, c_b))
    ]
    # rounded: sums of floats in another order must not turn a tie into a sign
    difference = np.round(100 * (draws[0] - draws[1]), 9)
    low, high = percentile_interval(difference)
    tail = 1 + np.minimum((difference <= 0).sum(axis=0), (difference >= 0).sum(axis=0))
    p = np.minimum(1, 2 * tail / (iterations + 1))
    columns = (ks, full_a, full_b, full_a - full_b, low, high, p)
    names = ("k", "a", "b", "difference", "low", "high", "p")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _drawn(c: np.ndarray, n, ks, m, iterations, seed: tuple) -> np.ndarray:
    counts = np.sort(c).astype(np.int64).tobytes()
    return np.stack([subsample_means(counts, n, int(k), m, iterations, seed) for k in ks], axis=1)


@lru_cache(maxsize=512)  # 200 MB; one set is asked for by itself, in an average and in pairs
def subsample_means(counts: bytes, n: int, k: int, m: int, draws: int, seed: tuple) -> np.ndarray:
    """Return mean pass@k over problems of subsamples of m out of n: (draws,), in [0, 1]. `counts`
    are the problems' correct counts, the bytes of an int64 array.

    A draw is a table look-up by 16 random bits: value x of a hypergeometric fills floor(2^16 p_x)
    of the 2^16 slots. A draw from the few slots left over is drawn again from the remainder by
    inverse CDF, so that nothing is rounded to 2^-16.
    """
    c, by_correct = np.frombuffer(counts, np.int64), pass_at_k_table(m, [k])[:, 0]
    bits = np.random.SFC64([*seed, crc32(counts)])  # equal counts of a side give equal draws
    means = np.zeros(draws)
    uniform = np.random.Generator(bits)
    for correct, problems in zip(*np.unique(c, return_counts=True), strict=True):
        pmf = _hypergeometric(int(correct), n, m)
        possible = by_correct[pmf > 1e-15]
        if (possible == possible[0]).all():  # every draw gives the same
            means += problems * possible[0]
            continue
        slots = np.floor(SLOTS * pmf).astype(int)
        rest = np.cumsum(SLOTS * pmf - slots)
        filled = slots.sum()
        # left-over slots add 0 here and their true value below
        table = np.repeat(np.append(by_correct, 0), np.append(slots, SLOTS - filled))
        for _ in range(problems):
            index = bits.random_raw(-(-draws // 4)).view(np.uint16)[:draws]
            means += table.take(index)
            again = np.flatnonzero(index >= filled)
            if len(again):
                x = np.searchsorted(rest, uniform.random(len(again)) * rest[-1], side="right")
                means[again] += by_correct[np.minimum(x, m)]
    return means / len(c)


@lru_cache(maxsize=4096)  # sets share counts: 10 MB at n = 1024
def _hypergeometric(c: int, n: int, m: int) -> np.ndarray:
    """Return P(x of the m are correct) for x = 0..m, if c of n are.

    scipy's function takes 20 times as long. Where a probability is a whole number of slots, such as
    1/4 at c = 1 and m = n / 4, it rounds to the other side: a seed would draw other numbers.
    """

    def log_choose(a, b):
        return gammaln(a + 1) - gammaln(b + 1) - gammaln(a - b + 1)

    x = np.arange(max(0, m - (n - c)), min(c, m) + 1)
    pmf = np.zeros(m + 1)
    pmf[x] = np.exp(log_choose(c, x) + log_choose(n - c, m - x) - log_choose(n, m))
    return pmf / pmf.sum()
