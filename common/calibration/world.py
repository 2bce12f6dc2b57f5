"""The model that simulated reruns are drawn from.

**Problems.** A benchmark has as many problems as its configuration says, the same ones for every
method. Their solve rates start as the quantiles of a Beta and are moved as little as possible in
log odds until the benchmark's pass@k at every printed k is the printed number (rates.py). Where
only one k is printed, the Beta's a + b is 0.66, the median over F-GRPO's Table 1, which prints
pass@1 and pass@256. The i-th hardest problem is the i-th hardest for every method.

**A run.** Its seed moves pass@k for k up to 8, and pass@k for larger k, by two independent normal
numbers with the standard deviations `noise.SEED_SD`. They are the same on all benchmarks of the
run; near 0 and 100 percent a standard deviation is at most half of the way there. The seed moves
nothing of an untrained model. Entropies and other numbers, including what a training logs, are the
printed or assumed values times one plus `noise.SEED_SHARE` times a normal number. The number of
right answers is binomial, with n samples per problem.

**Sets.** Where the paper drew problems of its own (`Spec.own_problems`), every draw resamples the
benchmark's problems with replacement, in the same way for all methods.

**Curves.** If the printed cells show points of the curve, the best step of a training has the
printed numbers, and the evaluations beside it are one point lower. A separate evaluation has the
printed numbers whichever checkpoint is chosen; curves that only serve this choice are not drawn.

**Worlds.** As printed: the truth is the printed number. No effect: all methods that pairs of
`Spec.gains` connect have the numbers of their first baseline. Half the effect: half of the way
between both. A world does not model the noise of the printed numbers themselves. The comparison's
intervals count that noise, so that agreement comes out more often than 95 % of the time.
"""

import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.special import expit

from common.calibration.made import Of, cells, log, logged, targets
from common.calibration.rates import logits, of_seed
from common.comparison.spec import Spec
from common.experiment import Experiment
from common.metrics.noise import LARGE, SEED_SHARE, seed_sd

AS_PRINTED, NO_EFFECT, HALF = WORLDS = ("as_printed", "no_effect", "half_effect")
SHARE_OF = {AS_PRINTED: 0.0, NO_EFFECT: 1.0, HALF: 0.5}  # of the way to the baseline
BESIDE = 1.0  # points by which the steps beside the best one are lower


@dataclass(frozen=True)
class Block:
    """One benchmark of one model, evaluated at one step."""

    of: Of
    passk: dict[int, float]
    problems: int
    n: int


@dataclass
class Plan:
    """The numbers that a paper's rerun needs, recorded as made.Numbers while one is stored."""

    spec: Spec
    beside: float | None = BESIDE
    blocks: list[Block] = field(default_factory=list)
    values: list[tuple[Of, str, float]] = field(default_factory=list)
    trainings: list[Experiment] = field(default_factory=list)

    def counts(self, of: Of, passk: dict[int, float], problems: int, n: int) -> np.ndarray:
        if passk:
            self.blocks.append(Block(of, passk, problems, n))
        return np.zeros(problems, int)

    def value(self, of: Of, metric: str, printed: float) -> float:
        self.values.append((of, metric, printed))
        return printed

    def logged(self, x: Experiment) -> dict[str, float]:
        self.trainings.append(x)
        return logged(x.paper, x.label)


@dataclass(frozen=True)
class Draw:
    """The numbers of one simulated rerun, in the order of its plan; they serve as made.Numbers."""

    plan: Plan
    right: list[np.ndarray]  # for each block, right answers by problem
    others: list[float]
    logs: list[dict[str, float]]
    beside: float | None = BESIDE

    def counts(self, of: Of, passk: dict[int, float], problems: int, n: int) -> np.ndarray:
        return self.right[self._place["blocks"][of]] if passk else np.zeros(problems, int)

    def value(self, of: Of, metric: str, printed: float) -> float:
        return self.others[self._place["values"][of, metric]]

    def logged(self, x: Experiment) -> dict[str, float]:
        return self.logs[self._place["trainings"][x.run_id]]

    def write_logs(self, home: Path) -> None:
        """Write what the trainings logged into the folders of the stored rerun."""
        for x, values in zip(self.plan.trainings, self.logs, strict=True):
            (home / x.run_id / "metrics.jsonl").write_text(log(x, values))

    @cached_property
    def _place(self) -> dict[str, dict]:
        return {
            "blocks": {block.of: i for i, block in enumerate(self.plan.blocks)},
            "values": {(of, metric): i for i, (of, metric, _) in enumerate(self.plan.values)},
            "trainings": {x.run_id: i for i, x in enumerate(self.plan.trainings)},
        }


class World:
    """The true numbers of a plan in one of WORLDS, from which reruns are drawn."""

    def __init__(self, plan: Plan, name: str):
        self.plan, self.name = plan, name
        share, root = SHARE_OF[name], Roots(plan.spec)
        self.passk = [_between(one, root.passk(one), share) for one in plan.blocks]
        self.values = [
            value + share * (root.value(of, metric, value) - value)
            for of, metric, value in plan.values
        ]
        self.logs = [
            {key: value + share * (of_root.get(key, value) - value) for key, value in own.items()}
            for x in plan.trainings
            for own, of_root in [(logged(x.paper, x.label), root.logged(x))]
        ]
        runs = {one.of.trained for one in plan.blocks} | {of.trained for of, _, _ in plan.values}
        self.runs = sorted(runs | {x.run_id for x in plan.trainings})
        sizes = [one.problems for one in plan.blocks]
        self.ends = np.cumsum(sizes)
        self.n = np.repeat([one.n for one in plan.blocks], sizes)
        self.logits = np.concatenate([logits(*key) for key in self._keys()])
        moves = [
            of_seed(*key, _sds(dict(key[0]))) * (not one.of.untrained)
            for key, one in zip(self._keys(), plan.blocks, strict=True)
        ]
        self.moves = np.concatenate(moves).T  # (2, N)
        place = {run: i for i, run in enumerate(self.runs)}
        self.run = np.repeat([place[one.of.trained] for one in plan.blocks], sizes)

    def _keys(self) -> list[tuple]:
        both = zip(self.passk, self.plan.blocks, strict=True)
        return [(tuple(sorted(passk.items())), one.problems) for passk, one in both]

    @property
    def rates(self) -> list[np.ndarray]:
        """The solve rates of each block, before a seed moves them."""
        return np.split(expit(self.logits), self.ends[:-1])

    def draw(self, number: int) -> Draw:
        """Return the rerun with this number, which is the same however many are drawn."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), number])
        seeds = rng.standard_normal((4, len(self.runs)))  # small k, large k, other numbers, logs
        x = self.logits + (self.moves * seeds[:2, self.run]).sum(0)
        right = rng.binomial(self.n, expit(self._sets(rng, x)))
        place = {run: i for i, run in enumerate(self.runs)}
        others = [
            value * (1 + SEED_SHARE * seeds[2, place[of.trained]] * (not of.untrained))
            for value, (of, _, _) in zip(self.values, self.plan.values, strict=True)
        ]
        logs = [
            {key: value * (1 + SEED_SHARE * seeds[3, i]) for key, value in own.items()}
            for own, i in zip(
                self.logs, [place[x.run_id] for x in self.plan.trainings], strict=True
            )
        ]
        return Draw(self.plan, np.split(right, self.ends[:-1]), others, logs)

    def _sets(self, rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
        """Return the log odds `x`, with resampled problems in the sets of `Spec.own_problems`."""
        spec = self.plan.spec
        parts = {part for name in spec.own_problems for part in spec.averages.get(name, [name])}
        drawn = {name: rng.random(100_000) for name in sorted(parts)}
        blocks = np.split(x, self.ends[:-1]) if parts else []
        for i, one in enumerate(self.plan.blocks if parts else ()):
            if one.of.benchmark in drawn:
                chosen = drawn[one.of.benchmark][: one.problems] * one.problems
                blocks[i] = blocks[i][chosen.astype(int)]
        return np.concatenate(blocks) if parts else x


def _sds(passk: dict[int, float]) -> tuple[tuple[int, float], ...]:
    """Return (k, standard deviation over seeds in points) for the smallest k and, if the largest k
    is above LARGE, for that too."""
    ks = dict.fromkeys([min(passk), *([max(passk)] if max(passk) > LARGE else [])])
    return tuple((k, seed_sd(f"pass@{k}", passk[k], k)) for k in ks)


def _between(block: Block, root: dict[int, float], share: float) -> dict[int, float]:
    passk = {k: v + share * (root.get(k, v) - v) for k, v in block.passk.items()}
    return {k: max(v - block.of.below, 0.5) if block.of.below else v for k, v in passk.items()}


class Roots:
    """The numbers that all methods of a group have where there is no effect. A group holds the
    methods that the pairs of `Spec.gains` connect in the printed tables of a model. Its numbers are
    the numbers of the first baseline that is not the method of another pair."""

    def __init__(self, spec: Spec):
        self.spec = spec
        self.rows = {key[:3] for key in cells(spec.paper)}  # table, model, method
        self.of_model = {model: self._groups(model) for _, model, _ in self.rows}

    def _groups(self, model: str) -> dict[tuple[str, str], tuple[str, str]]:
        """Return run (table, method) -> the run whose numbers it has without an effect."""
        tables = {table for table, of, _ in self.rows if of == model}
        pairs = [
            (self._run(table, method), self._run(table, baseline))
            for method, baseline in self.spec.gains
            for table in sorted(tables)
            if {(table, model, method), (table, model, baseline)} <= self.rows
        ]
        group = {run: run for pair in pairs for run in pair}
        for a, b in pairs:
            joined, into = group[a], group[b]
            group = {run: into if of == joined else of for run, of in group.items()}
        methods = {a for a, b in pairs if a != b}
        roots: dict[tuple[str, str], tuple[str, str]] = {}
        for _, b in sorted(pairs, key=lambda pair: pair[1] in methods):  # stable
            roots.setdefault(group[b], b)
        return {run: roots[of] for run, of in group.items()}

    def _run(self, table: str, method: str) -> tuple[str, str]:
        """Return the run (table, method) that stands for a printed row."""
        for one in self.spec.same_runs:
            if (one.table, one.method) == (table, method):
                return one.of_table, one.of_method
        return table, method

    def row(self, table: str, model: str, method: str) -> tuple[str, str]:
        own = self._run(table, method)
        return self.of_model.get(model, {}).get(own, own)

    def printed(self, of: Of) -> dict[str, float]:
        table, method = self.row(of.table, of.model, of.method)
        return targets(self.spec, table, method, of.model, of.benchmark, of.step)

    def passk(self, block: Block) -> dict[int, float]:
        printed = self.printed(block.of)
        names = {k: self.spec.metrics.get(f"pass@{k}", f"pass@{k}") for k in block.passk}
        return {k: printed[name] for k, name in names.items() if name in printed}

    def value(self, of: Of, metric: str, own: float) -> float:
        return self.printed(of).get(metric, own)

    def logged(self, x: Experiment) -> dict[str, float]:
        return logged(x.paper, self.row(x.table, x.model.name, x.label)[1])
