"""Metrics that need the samples themselves and not only their counts: votes and entropies.

Each function takes one benchmark's samples as parallel sequences, one entry per sample. It returns
one value per problem, in the order in which the problems first occur.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
import pandas as pd

from common.errors import UserError

ENUMERATED, DRAWN = 1000, 10_000  # most subsets per problem: if enumerated, if drawn at random


def maj_at_k(
    problems: Sequence[str],
    answers: Sequence[str | None],
    correct: Sequence[bool],
    ks: Sequence[int],
    *,
    draws: int = 100_000,
    seed: int = 0,
) -> np.ndarray:
    """Return the expected accuracy of a majority vote among k of a problem's n samples: (P, K), in
    [0, 1].

    Votes are parsed answers, and equal answers count together. A sample without an answer (None)
    has no vote, and a subset without any vote is wrong. Ties are broken at random, so the tied
    answers share the win; taking the first answer seen, as verl does, gives the same on average. An
    answer counts as right by the share of its samples that were judged right (all or none, for a
    verifier that agrees with itself).

    The mean is over subsets without replacement. All C(n, k) subsets are used if there are at most
    1000 (so k = n is the vote of all samples). Otherwise `draws` seeded random subsets are used in
    all, spread evenly over the problems, at most 10,000 each. With 10 problems or more the mean
    over them has a Monte-Carlo error of at most 1 / (2 sqrt(draws)), 0.16 points with the default.
    Raises UserError for k > n.
    """
    problem, names = pd.factorize(np.asarray(problems, dtype=object))
    answer = pd.factorize(np.asarray(answers, dtype=object))[0]
    correct = np.asarray(correct, dtype=float)
    rng = np.random.default_rng(seed)
    each = min(DRAWN, -(-draws // max(len(names), 1)))
    subsets: dict[tuple[int, int], np.ndarray] = {}
    result = np.empty((len(names), len(ks)))
    for row, members in enumerate(_members(problem, len(names))):
        n = len(members)
        votes, shares = _ballots(answer[members], correct[members])
        shuffled = votes[rng.permutation(n)]
        for column, k in enumerate(ks):
            if not 1 <= k <= n:
                raise UserError(
                    f"problem {names[row]}: maj@{k} needs 1 <= k <= n={n}; drop this k or sample "
                    "more"
                )
            if (n, k) not in subsets:
                subsets[n, k] = _subsets(n, k, each, rng)
            result[row, column] = _share_won(shuffled[subsets[n, k]], shares)
    return result


def _members(codes: np.ndarray, groups: int) -> list[np.ndarray]:
    """Return the positions of each group's entries, in order."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=groups))[:-1])


def _ballots(answer: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each sample's answer as 0..M-1 (M: no vote), and the right share of each answer."""
    distinct, votes = np.unique(answer, return_inverse=True)
    times = np.bincount(votes)
    shares = np.bincount(votes, weights=correct) / times
    if distinct[0] == -1:  # the missing answer comes first: make it the last
        votes, shares = (votes - 1) % len(distinct), shares[1:]
    return votes, shares


def _subsets(n: int, k: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Return the positions of subsets of k out of n, (S, k): all subsets, or `draws` random ones.

    Problems with the same n share the subsets; each problem shuffles its samples by itself first.
    """
    if comb(n, k) <= ENUMERATED:
        return np.array(list(combinations(range(n), k)))
    return rng.permuted(np.tile(np.arange(n, dtype=np.int32), (draws, 1)), axis=1)[:, :k].copy()


def _share_won(votes: np.ndarray, shares: np.ndarray) -> float:
    """Return the mean over subsets (S, k) of votes of the right share of the winning answers."""
    size, answers = len(votes), len(shares)
    slots = votes + (answers + 1) * np.arange(size)[:, None]
    times = np.bincount(slots.ravel(), minlength=size * (answers + 1))
    times = times.reshape(size, answers + 1)[:, :answers]
    if not answers:
        return 0.0
    most = times.max(axis=1, keepdims=True)
    won = (times == most) & (most > 0)
    return float((won @ shares / np.maximum(won.sum(axis=1), 1)).mean())


def answer_entropy(problems: Sequence[str], answers: Sequence[str | None]) -> np.ndarray:
    """Return the entropy of each problem's answers in bits, (P,), at most log2 n (two_stage App.
    C.5).

        -sum_j p_j log2 p_j,  p_j = share of the problem's n samples with answer j

    Samples without an answer count together as one answer, NA, as in the paper. The paper does not
    name its logarithm; its largest value, 6.062, is above ln 256, so it must be in bits. This is
    the plug-in estimate: it is too low while n is small beside the number of answers, so compare
    runs with the same n only.
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

    log_probs: the log-probability of each whole response under the distribution it was drawn from;
    tokens: T_i. Given the text before it, a drawn token's -log p has the entropy H(p_t) as its
    mean, so no distributions need to be stored. The paper writes one T for all sequences; with
    different lengths this is the mean over sequences of their means. (The `token_entropy` of a
    run's metrics.csv is the other reading, the mean over all tokens.)
    """
    problem, names = pd.factorize(np.asarray(problems, dtype=object))
    means = -np.asarray(log_probs, dtype=float) / np.asarray(tokens, dtype=float)
    sizes = np.bincount(problem, minlength=len(names))
    return np.bincount(problem, weights=means, minlength=len(names)) / sizes
