"""The yardstick's third edition: what it fixes and what it runs (docs/evidence.md).

papers/yardstick/configs/reproduce.yaml states the rows (named experiments), learning rates, steps
and seeds. Every seed starts from a base model of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.comparison.matched import ACCURACY
from common.comparison.matched import DIVERSITY as PRIMARY
from common.yardstick.protocol import Protocol

if TYPE_CHECKING:
    from common.experiment import Experiment
    from common.sweeps.plan import Reproduce

GRPO, BASE = "GRPO", "base"
FASTEST = "lr 1e-4"
SEEDS = 9  # of every method, once all stages are complete
MARGIN = 3.0  # points, within which two methods are equivalent
LEAST_LEVELS = 5  # how many levels a seed must have on both sides of a comparison
DEV = "dev_"  # begins the name of a benchmark of dev prompts
LAST_KS = (1, 64, 256)  # of pass@k after the last step
PASS64, DISTINCT = ("natural", "pass@64"), ("natural", "distinct_correct")
# what is held equal: accuracy in points above the base model, entropy in percent of the base
# model's entropy that is lost, divergence from the base model in nats
EQUAL_ACCURACY, EQUAL_ENTROPY, EQUAL_KL = "pass@1", "entropy", "KL"
AS_FIRST_DECLARED = "pass@1 to +10"  # declared before any run of the second stage was read
LEVELS = {
    EQUAL_ACCURACY: tuple(range(2, 17)),
    AS_FIRST_DECLARED: tuple(range(2, 11)),
    EQUAL_ENTROPY: tuple(range(10, 51, 5)),
    EQUAL_KL: tuple(n / 10 for n in range(1, 13)),
}
READ = {  # measures that are read at each; the very first is tested
    EQUAL_ACCURACY: (PRIMARY, PASS64, DISTINCT, ("rare", "distinct_correct")),
    AS_FIRST_DECLARED: (PRIMARY,),
    EQUAL_ENTROPY: (PRIMARY, ACCURACY),
    EQUAL_KL: (PRIMARY, ACCURACY),
}
CONTROLLED = (GRPO, "KL", "DAPO", "CISPO", "GRPO (N=2)", "GRPO (N=32)")  # methods in the controls
CONTROL_SEEDS = 5
SLOWEST = "lr 3e-6"  # where it is declared, it runs after all else
STAGES = ("controls", "seeds 1 to 3", "seeds 4 to 6", "seeds 7 to 9", SLOWEST)


@dataclass(frozen=True)
class Third:
    """One testbed of the edition."""

    name: str  # of its configuration and its results folder
    task: str
    every_rate: bool  # whether methods run at every rate, or only where all of its controls pass

    @property
    def curves(self) -> Protocol:
        """The edition as `ranking.curves` takes it. Every seed has its own base model."""
        return Protocol(
            name=self.name,
            model="",
            task=self.task,
            levels=(0.0, 0.0),
            rankings={},
            measures=dict.fromkeys({one for read in READ.values() for one in read}, ""),
            drawn=PRIMARY,
            bases=10**6,
        )


EDITIONS = {
    one.name: one
    for one in (
        Third("third_maze", "mazes with loops", every_rate=True),
        Third("third_countdown", "Subset-Countdown", every_rate=False),
    )
}


def plan(config: Reproduce) -> list[list[Experiment]]:
    """Return the scale's runs in the order of STAGES, each from its seed's own base model: the
    controls first, then seed by seed, so that a stopped queue has completed whole stages."""
    from common.sweeps.plan import experiments, from_base

    runs = [from_base(x, x.seed) for x in experiments(config)]
    stages: list[list[Experiment]] = [[] for _ in STAGES]
    for x in sorted(runs, key=lambda x: (x.seed, x.optim.steps > 0)):
        stages[_stage(x)].append(x)
    return stages


def at_rates(stages: list[list[Experiment]], rates: Sequence[str]) -> list[list[Experiment]]:
    """Return the first stage, the controls, and of the later stages only the runs at `rates` and of
    the base model. Without any rate, return the first stage alone."""
    first, *later = stages
    kept = [[x for x in runs if x.table in (BASE, *rates)] for runs in later]
    return [first, *kept] if rates else [first]


def _stage(x: Experiment) -> int:
    if x.table == SLOWEST:
        return STAGES.index(SLOWEST)
    controls = x.label in (BASE, *CONTROLLED) and x.seed <= CONTROL_SEEDS
    return 0 if controls else 1 + (x.seed - 1) // 3


def methods(labels: Sequence[str]) -> list[str]:
    """Return the methods that are compared with GRPO: all but GRPO, the base model and the methods
    that run only for the controls."""
    apart = set(CONTROLLED[2:]) | {GRPO, BASE}
    return [name for name in dict.fromkeys(labels) if name not in apart]
