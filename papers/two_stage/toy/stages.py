"""The two stages of the toy's paths: exploitation, in which the leader rises and the best action
stays rare, and exploration, in which the best action overtakes it."""

import numpy as np

COLUMNS = [
    "leader_start",
    "leader_peak",
    "leader_end",
    "best_start",
    "best_low",
    "best_at_peak",
    "best_end",
    "peak_step",
    "crossing",
    "two_stages",
]


class Stages:
    """What the seeds' paths did, step by step; all arrays (C, S)."""

    def __init__(self, best: list[int], leader: list[int], p: np.ndarray):
        """best, leader: the actions of each cell; p: (V, C, S), the policies before training."""
        self.best, self.leader = best, leader
        self.cells = np.arange(len(best))
        self.start_best, self.start_leader = p[self.best, self.cells], p[self.leader, self.cells]
        self.peak, self.at_peak = self.start_leader.copy(), self.start_best.copy()
        self.low = self.start_best.copy()
        self.peak_step = np.zeros(self.peak.shape)
        self.crossing = np.full(self.peak.shape, np.nan)

    def see(self, step: int, p: np.ndarray) -> None:
        """The policies after `step`; nothing but the crossing itself is noted from there on."""
        best, leader = p[self.best, self.cells], p[self.leader, self.cells]
        self.crossing[np.isnan(self.crossing) & (best > leader)] = step
        before = np.isnan(self.crossing)
        higher = before & (leader > self.peak)
        self.peak[higher], self.at_peak[higher] = leader[higher], best[higher]
        self.peak_step[higher] = step
        lower = before & (best < self.low)
        self.low[lower] = best[lower]

    def ends(self, p: np.ndarray, rise: float) -> dict[str, np.ndarray]:
        """COLUMNS, one entry a cell and seed, after the last policies p.

        two_stages: before the best action crosses the leader, the leader has risen by `rise` at
        least and at its peak the best has risen by `rise` at most; and the crossing takes place.
        """
        exploited = self.peak - self.start_leader >= rise
        flat = self.at_peak - self.start_best <= rise
        columns = [
            self.start_leader,
            self.peak,
            p[self.leader, self.cells],
            self.start_best,
            self.low,
            self.at_peak,
            p[self.best, self.cells],
            self.peak_step,
            self.crossing,
            (exploited & flat & ~np.isnan(self.crossing)).astype(int),
        ]
        return {name: x.ravel() for name, x in zip(COLUMNS, columns, strict=True)}
