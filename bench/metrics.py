"""Evaluation primitives compared with the usual way to write them; one core, numpy on both
sides."""

from statistics import median

import numpy as np
import pandas as pd

from bench import alternate, row, timed
from common.metrics.paired import subsampling_test
from common.metrics.passk import pass_at_k
from common.metrics.report import from_counts


def run(rounds: int = 9) -> list[dict]:
    """Return the milliseconds of pass@k (peer: product form, problem by problem), of F-GRPO's App.
    I test (peer: numpy's hypergeometric, so slow that it runs 1/250 of the iterations), and of the
    whole report of a benchmark. bench/validation.py has verl's metrics."""
    rng = np.random.default_rng(0)
    ks = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    c = rng.binomial(256, rng.beta(0.5, 0.5, 500))
    ours, peer = alternate(
        lambda: pass_at_k(c, 256, ks),
        lambda: np.array([[product_form(256, x, k) for k in ks] for x in c]),
        rounds,
    )
    name = "pass@k, 500 problems x 9 k, n=256"
    rows = [row(name, 1e3 * median(ours), 1e3 * median(peer), "ms", "peer: product form a problem")]

    a, b = rng.binomial(1024, rng.beta(0.5, 0.5, (2, 675)))
    iterations, share = 50_000, 250
    ours, peer = alternate(
        lambda: subsampling_test(a, b, n=1024, ks=[1, 256], m=256, iterations=iterations, seed=0),
        lambda: hypergeometric_test(a, b, n=1024, m=256, iterations=iterations // share),
        max(rounds // 3, 3),
    )
    name = "App. I test, 675 problems x 50,000 iterations x k=1,256, n=1024, m=256"
    note = f"peer: numpy hypergeometric, {iterations // share} iterations, time x {share}"
    rows.append(row(name, 1e3 * median(ours), 1e3 * share * median(peer), "ms", note))

    names = [f"p{i}" for i in range(500)]
    counts = pd.DataFrame({"benchmark": "b", "problem_id": names, "n": 256, "c": c})
    ours = [timed(lambda: from_counts(counts, ks)) for _ in range(rounds)]
    name = "full report from counts, 500 problems x 9 k, n=256"
    note = "pass@k and avg@n with bootstrap intervals, power law with intervals, Beta fits"
    return [*rows, row(name, 1e3 * median(ours), None, "ms", note)]


def product_form(n: int, c: int, k: int) -> float:
    """Return the estimator of Chen et al. (2021) as commonly written."""
    if n - c < k:
        return 1.0
    return 1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1))


def hypergeometric_test(a, b, *, n: int, m: int, iterations: int):
    """Return the intervals for k=1 and k=m, from draws that need no table: the mean, and whether
    any is correct."""
    rng = np.random.default_rng(0)
    x, y = (rng.hypergeometric(c, n - c, m, size=(iterations, len(c))) for c in (a, b))
    differences = [(x - y).mean(axis=1) / m, ((x > 0) * 1.0 - (y > 0)).mean(axis=1)]
    return [np.percentile(difference, [2.5, 97.5]) for difference in differences]
