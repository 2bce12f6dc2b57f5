"""One step of the toy: sampling, and Algorithm 1's gradient."""

import numpy as np


def gradient(p, below, rewards, *, G: int, negative_only: bool):
    """Return g / G of Algorithm 1, (V, C, S).

    p: (V, C, S); rewards: (V, C, 1); below: (V - 1, C, S), the result of `draw_below`.
    """
    counts = np.diff(below, axis=0, prepend=0, append=G)
    weighted = counts * rewards
    advantage = rewards - weighted.sum(0) / G
    if negative_only:
        np.minimum(advantage, 0, out=advantage)
    pull = np.multiply(counts, advantage, out=weighted)
    pull -= p * pull.sum(0)
    return np.divide(pull, G, out=pull)


def draw_below(p, uniforms):
    """Return, for every action but the last, how many of G samples drawn by inverse CDF are that
    action or an earlier one: p (V, C, S), uniforms (G, S) -> (V - 1, C, S)."""
    cdf = p[:-1].cumsum(0)
    below = (uniforms[0] < cdf).astype(float)
    for uniform in uniforms[1:]:
        below += uniform < cdf
    return below


def negatives(below, rewards, *, G: int):
    """Return how many of a group's samples of each action have a negative advantage, (V, C, S):
    their reward is below the group's mean. Arguments as in `gradient`."""
    counts = np.diff(below, axis=0, prepend=0, append=G)
    return np.where(rewards < (counts * rewards).sum(0) / G, counts, 0)
