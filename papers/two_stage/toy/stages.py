"""The two stages of a path of the toy: exploitation, in which the leader rises and the best action
stays rare, and exploration, in which the best action overtakes the leader."""

import numpy as np


class Stages:
    """The record of the leader and the best action along the paths of all seeds: arrays (C, S)."""

    def __init__(self, best: list[int], leader: list[int], p: np.ndarray):
        """Start at p (V, C, S); best, leader: the best and the leading action of each cell."""
        self.best, self.leader = best, leader
        self.cells = np.arange(len(best))
        self.start_best, self.start_leader = p[self.best, self.cells], p[self.leader, self.cells]
        self.peak, self.at_peak = self.start_leader.copy(), self.start_best.copy()
        self.low = self.start_best.copy()
        self.crossing = np.full(self.peak.shape, np.nan)
        self.negatives = np.zeros((2, *self.peak.shape))  # of the leader, of all actions
        self.by_peak = self.negatives.copy()

    def see(self, step: int, p: np.ndarray) -> None:
        """Record the policies p after `step`, until the best action has crossed the leader."""
        best, leader = p[self.best, self.cells], p[self.leader, self.cells]
        self.crossing[np.isnan(self.crossing) & (best > leader)] = step
        before = np.isnan(self.crossing)
        higher = before & (leader > self.peak)
        self.peak[higher], self.at_peak[higher] = leader[higher], best[higher]
        self.by_peak[:, higher] = self.negatives[:, higher]
        lower = before & (best < self.low)
        self.low[lower] = best[lower]

    def drew(self, negatives: np.ndarray) -> None:
        """Record the samples of a step with a negative advantage, (V, C, S), until the crossing."""
        seen = np.stack([negatives[self.leader, self.cells], negatives.sum(0)])
        self.negatives += np.where(np.isnan(self.crossing), seen, 0)

    def ends(self, p: np.ndarray, rise: float) -> dict[str, np.ndarray]:
        """Return what the paths were like after the last policies p, by name, each with one entry
        for each cell and seed.

        two_stages is 1 if the best action crosses the leader, and before that the leader has risen
        by `rise` or more while the best action had, at the leader's peak, risen by `rise` at most.
        negative_1, negative_2: the leader's share of the samples with a negative advantage, up to
        its peak and from there to the crossing; NaN without such samples, or without a crossing.
        """
        exploited = self.peak - self.start_leader >= rise
        flat = self.at_peak - self.start_best <= rise
        crossed = ~np.isnan(self.crossing)
        parts = (self.by_peak, np.where(crossed, self.negatives - self.by_peak, 0))
        shares = [
            np.divide(*part, out=np.full(part[0].shape, np.nan), where=part[1] > 0)
            for part in parts
        ]
        found = {
            "leader_start": self.start_leader,
            "leader_peak": self.peak,
            "leader_end": p[self.leader, self.cells],
            "best_start": self.start_best,
            "best_low": self.low,
            "best_at_peak": self.at_peak,
            "best_end": p[self.best, self.cells],
            "crossing": self.crossing,
            "two_stages": (exploited & flat & crossed).astype(int),
            "negative_1": shares[0],
            "negative_2": shares[1],
        }
        return {name: x.ravel() for name, x in found.items()}
