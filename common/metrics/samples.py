"""Entropies of the samples themselves, which counts do not determine.

Each function takes one benchmark's samples as parallel sequences and returns one value per problem,
in the order in which the problems first occur.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def answer_entropy(problems: Sequence[str], answers: Sequence[str | None]) -> np.ndarray:
    """Return the entropy of each problem's answers in bits, (P,), at most log2 n (two_stage App.
    C.5).

        -sum_j p_j log2 p_j,  p_j = share of the problem's n samples with answer j

    Samples without an answer count together as one answer, NA, as in the paper. The paper names no
    logarithm; its largest value, 6.062, is above ln 256, so it must be in bits. This plug-in
    estimate is too low while n is small relative to the number of answers: compare runs with the
    same n only.
    """
    problem, names = pd.factorize(np.asarray(problems, dtype=object))
    answer = pd.factorize(np.asarray(answers, dtype=object))[0] + 1
    pairs, times = np.unique(problem * (answer.max(initial=0) + 1) + answer, return_counts=True)
    owner = pairs // (answer.max(initial=0) + 1)
    p = times / np.bincount(problem)[owner]
    # 0 - x, so that one certain answer gives 0 and not -0
    return 0 - np.bincount(owner, weights=p * np.log2(p), minlength=len(names))


def token_entropy(
    problems: Sequence[str], log_probs: Sequence[float], tokens: Sequence[int]
) -> np.ndarray:
    """Return the mean entropy of the next token in nats, (P,), from sampled tokens (two_stage App.
    C.5).

        (1/G) sum_i (1/T_i) sum_t -log p(y_t | y_<t)

    log_probs: of each whole response under the distribution it was drawn from; tokens: T_i. A drawn
    token's -log p has the mean H(p_t), so no distributions need to be stored. The paper writes one
    T for all sequences; with different lengths this is the mean over sequences of their means. (The
    `token_entropy` of a run's metrics.csv is the other reading, the mean over all tokens.)
    """
    problem, names = pd.factorize(np.asarray(problems, dtype=object))
    means = -np.asarray(log_probs, dtype=float) / np.asarray(tokens, dtype=float)
    sizes = np.bincount(problem, minlength=len(names))
    return np.bincount(problem, weights=means, minlength=len(names)) / sizes
