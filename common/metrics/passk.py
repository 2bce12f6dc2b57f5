"""Unbiased pass@k by table look-up (F-GRPO Eq. 25; Chen et al. 2021), and verl's best@k.

    pass@k = E_problems[ 1 - C(n-c, k) / C(n, k) ]     k of the n samples, without replacement
    best@k = E_problems[ 1 - (1 - c/n)^k ]             k draws from them, with replacement

with n samples of a problem, c of them correct. avg@k, the mean accuracy of k = n samples, equals
pass@1.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from common.errors import UserError


def pass_at_k_table(n: int, ks: ArrayLike) -> np.ndarray:
    """Return pass@k of every c = 0..n and every k: (n+1, K), in [0, 1].

    C(n-c, k) / C(n, k) = prod_{j<c} (n-k-j) / (n-j), a cumulative product down the rows; its
    relative error is below 2n * 2^-53, where log-gamma would lose digits to cancellation.
    """
    ks = _checked_ks(ks)
    if n < 1 or ks.max() > n:
        raise UserError(f"k={ks.max()}: pass@k needs 1 <= k <= n={n}; drop this k or sample more")
    j = np.arange(n)[:, None]
    miss = np.ones((n + 1, len(ks)))
    # zero from c = n-k+1 on: more right answers than can be left out of a draw of k
    np.cumprod(np.maximum(n - ks - j, 0) / (n - j), axis=0, out=miss[1:])
    return 1 - miss


def pass_at_k(
    c: ArrayLike, n: ArrayLike, ks: Sequence[int], problems: Sequence[str] | None = None
) -> np.ndarray:
    """Return pass@k of each problem: counts c (P,), samples n (P,) or an int -> (P, K), in [0, 1].

    `problems` are names for messages. Raises UserError for k > n, c > n, and for negative,
    fractional or NaN values.
    """
    ks = _checked_ks(ks)
    c, n = _checked_counts(c, n, problems)
    if len(n) and n.min() < ks.max():
        row = int(np.argmin(n))
        raise UserError(
            f"problem {_name(problems, row)}: k={ks.max()} is above n={n[row]} samples; "
            "drop this k or sample more"
        )
    result = np.empty((len(c), len(ks)))
    for size in np.unique(n):
        rows = n == size
        result[rows] = pass_at_k_table(int(size), ks)[c[rows]]
    return result


def avg_at_k(c: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Return the mean accuracy c / n of each problem (P,), in [0, 1]; avg@k has k = n. Raises
    UserError as pass_at_k does."""
    c, n = _checked_counts(c, n, None)
    return c / n


def estimator(metric: str) -> tuple[str, int] | None:
    """Return which of the two estimators a metric is, and its k: ("pass", k), also for avg@n with
    k = 1, or ("best", k); None for other metrics. Upper case, as papers print PASS@8, is the
    same."""
    named = re.match(r"(avg|pass|best)@(\d+)", metric.lower())
    if named is None:
        return None
    return ("pass", 1) if named[1] == "avg" else (named[1], int(named[2]))


def estimate(of: tuple[str, int], c: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Return each problem's value (P,) of an `estimator`, in [0, 1].

    best@k is the expectation of what verl logs under this name: the mean over 1,000 bootstrap draws
    of k of the n samples (verl.trainer.ppo.metric_utils.bootstrap_metric). It is at most pass@k.
    Raises UserError as pass_at_k does.
    """
    name, k = of
    return 1 - (1 - avg_at_k(c, n)) ** k if name == "best" else pass_at_k(c, n, [k])[:, 0]


def mean_and_stderr(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over problems (axis 0) and its standard error, NaN for one problem."""
    problems = len(values)
    if problems < 2:
        return values.mean(axis=0), np.full(values.shape[1:], np.nan)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(problems)


def report(counts: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """Return pass@k of each benchmark, in percent as in the published tables.

    counts: rows benchmark, problem_id, n, c. Returns benchmark, metric, k, value, unit, stderr
    (over problems), n_problems, n_samples (per problem). Raises UserError as pass_at_k does, for a
    repeated problem, and for a benchmark whose problems do not all have the same n.
    """
    rows = []
    for benchmark, group in counts.groupby("benchmark", sort=False):
        n = check_benchmark(str(benchmark), group)
        names = [f"{benchmark}/{problem}" for problem in group["problem_id"]]
        values = 100 * pass_at_k(group["c"].to_numpy(), group["n"].to_numpy(), ks, names)
        for k, value, stderr in zip(ks, *mean_and_stderr(values), strict=True):
            row = {"benchmark": benchmark, "metric": f"pass@{k}", "k": k, "value": value}
            row |= {"unit": "percent", "stderr": stderr, "n_problems": len(group), "n_samples": n}
            rows.append(row)
    return pd.DataFrame(rows)


def check_benchmark(benchmark: str, counts: pd.DataFrame) -> int:
    """Return the n that all problems of a benchmark share. Raises UserError if they do not, or if a
    problem repeats."""
    repeated = counts["problem_id"][counts["problem_id"].duplicated()]
    if len(repeated):
        raise UserError(
            f"benchmark {benchmark}: problem_id={repeated.iloc[0]} appears more than once; "
            "give the counts of one run at a time"
        )
    sizes = sorted(set(counts["n"]))
    if len(sizes) > 1:
        raise UserError(
            f"benchmark {benchmark}: problems have different n ({sizes[0]} to {sizes[-1]}); "
            "finish sampling: all problems of a benchmark need the same n"
        )
    return int(sizes[0])


def _checked_ks(ks: ArrayLike) -> np.ndarray:
    ks = np.asarray(ks)
    if ks.ndim != 1 or not len(ks) or not np.all(ks >= 1) or not np.all(ks == ks.astype(int)):
        raise UserError(f"k={ks.tolist()}: needs a list of whole numbers, each at least 1")
    return ks.astype(int)


def _checked_counts(c, n, problems) -> tuple[np.ndarray, np.ndarray]:
    c = np.asarray(c, dtype=float)
    n = np.broadcast_to(np.asarray(n, dtype=float), c.shape)
    bad = ~((n >= 1) & (c >= 0) & (c <= n) & (c % 1 == 0) & (n % 1 == 0))  # NaN compares false
    if bad.any():
        row = int(np.argmax(bad))
        raise UserError(
            f"problem {_name(problems, row)}: c={c[row]:g}, n={n[row]:g}; "
            "needs whole numbers with 0 <= c <= n and n >= 1"
        )
    return c.astype(int), n.astype(int)


def _name(problems: Sequence[str] | None, row: int) -> str:
    return str(row if problems is None else problems[row])
