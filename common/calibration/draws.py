"""Simulated reruns as `gather` would return them, without files. Each has the rows and counts of
one rerun that was stored and gathered, with the numbers replaced."""

from dataclasses import replace

import numpy as np

from common.calibration.world import Draw, Plan, World
from common.comparison.gather import Gathered
from common.metrics.noise import sampling_variances
from common.metrics.passk import pass_at_k_table


class Gatherer:
    """Puts the numbers of draws into the gathered tables of the plan's stored rerun."""

    def __init__(self, stored: Gathered, plan: Plan):
        self.stored, self.plan, self.blocks = stored, plan, plan.blocks
        found = stored.counts.groupby(["run_id", "step", "benchmark"]).indices
        places = [found[one.of.folder, one.of.step, one.of.benchmark] for one in self.blocks]
        self.at = np.concatenate(places)
        self.problems = np.array([one.problems for one in self.blocks])
        number = {(x.of.folder, x.of.step, x.of.benchmark): i for i, x in enumerate(self.blocks)}
        rows = stored.rows
        keys = zip(rows["run_id"], rows["step"], rows["benchmark"], strict=True)
        shares = rows["metric"].str.match(r"(pass|avg)@\d+$").to_numpy()
        of = np.array([number.get(key, -1) for key in keys])
        self.rows = np.flatnonzero(shares & (of >= 0))
        average = rows["metric"].str.startswith("avg@").to_numpy()[self.rows]
        self.k = np.where(average, 1, rows["k"].to_numpy(float)[self.rows]).astype(int)
        self.of = of[self.rows]
        named = {
            (run, plan.spec.metrics.get(metric, metric)): i
            for i, (run, metric) in enumerate(zip(rows["run_id"], rows["metric"], strict=True))
        }
        self.others = [named[of.folder, metric] for of, metric, _ in plan.values]

    def truth(self, world: World) -> Gathered:
        """Return the rerun with the true numbers of `world`, rounded to four digits so that equal
        numbers compare as equal."""
        value, rates = self.stored.rows["value"].to_numpy(float).copy(), world.rates
        for row, of, k in zip(self.rows, self.of, self.k, strict=True):
            value[row] = 100 * (1 - np.mean((1 - rates[of]) ** k))
        value[self.others] = world.values
        return replace(self.stored, rows=self.stored.rows.assign(value=np.round(value, 4)))

    def gathered(self, draw: Draw) -> Gathered:
        """Return the rerun with the numbers of `draw`, and `sampling` (comparison/single.py) as a
        further column of its rows."""
        rows, counts = self.stored.rows, self.stored.counts
        value, stderr = (rows[name].to_numpy(float).copy() for name in ("value", "stderr"))
        sampling = stderr.copy()
        for n in {one.n for one in self.blocks}:
            which = [i for i, one in enumerate(self.blocks) if one.n == n]
            place = np.full(len(self.blocks), -1)
            place[which] = np.arange(len(which))
            here = np.flatnonzero(place[self.of] >= 0)
            at, of = self.rows[here], place[self.of[here]]
            ks, k = np.unique(self.k[here], return_inverse=True)
            times = np.stack([np.bincount(draw.right[i], minlength=n + 1) for i in which])
            x, problems = pass_at_k_table(n, ks), times.sum(1, keepdims=True)
            means = times @ x / problems
            spread = np.maximum(times @ x**2 / problems - means**2, 0.0)
            spread[spread < 1e-15] = 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                errors = np.sqrt(spread / (problems - 1))
            if n == 1:
                over = means * (1 - means) * problems
            else:
                over = times @ np.stack([sampling_variances(n, int(one)) for one in ks], axis=1)
            value[at], stderr[at] = 100 * means[of, k], 100 * errors[of, k]
            sampling[at] = 100 * (np.sqrt(np.maximum(over, 0.0)) / problems)[of, k]
        value[self.others] = draw.others
        right = counts["c"].to_numpy().copy()
        right[self.at] = np.concatenate(draw.right)
        return replace(
            self.stored,
            rows=rows.assign(value=value, stderr=stderr, sampling=sampling),
            counts=counts.assign(c=right, distinct=np.minimum(right, 1)),
        )
