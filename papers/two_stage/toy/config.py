"""The settings of the toy, with checks of their values: the cells of each figure, and what is
recorded."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from common.config.schema import Folder
from common.errors import require
from papers.two_stage.theory.formulas import expected_path


@dataclass(frozen=True)
class Cell:
    """One setting: rewards and initial policy of V actions, group size, temperature."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (pydantic's own name)

    name: str
    rewards: list[float]
    policy: list[float]
    G: int
    temperature: float
    hold: Literal["policy", "logits"]

    def __post_init__(self):
        key = f"figures, cell {self.name}: "
        require(self.G >= 2, key + "G", self.G, "a group of one has no advantage; take at least 2")
        require(self.temperature > 0, key + "temperature", self.temperature, "must be above 0")
        require(
            len(self.rewards) == len(self.policy) > 1
            and min(self.policy) > 0
            and abs(sum(self.policy) - 1) < 1e-9,
            key + "policy",
            self.policy,
            f"needs {len(self.rewards)} probabilities above 0 that sum to 1, one a reward",
        )
        require(
            self.policy[self.leader] > self.policy[self.best],
            key + "policy",
            self.policy,
            "the action of the highest reward must start below another one (sec 3.2)",
        )

    @property
    def best(self) -> int:
        return max(range(len(self.rewards)), key=self.rewards.__getitem__)

    @property
    def leader(self) -> int:
        others = [v for v in range(len(self.policy)) if v != self.best]
        return max(others, key=self.policy.__getitem__)

    def expected(self, config: "Toy", negative_only: bool):
        """Return the policy at the recorded steps if every plain step is its exact expectation,
        (steps, V)."""
        tau = self.temperature
        return expected_path(
            np.log(self.policy) * (tau if self.hold == "policy" else 1),
            np.array(self.rewards, float),
            config.recorded(),
            eta=config.eta / (tau if config.temperature_gradient else 1),
            G=self.G,
            negative_only=negative_only,
            temperature=tau,
        )


@dataclass(frozen=True)
class Toy:
    optimizers: list[Literal["sgd", "adam"]]
    methods: list[Literal["full", "negative"]]
    seeds: int  # number of seeds, which are 0 .. seeds-1
    steps: int
    eta: float
    betas: tuple[float, float]
    eps: float
    temperature_gradient: bool
    rise: float
    band: tuple[float, float]
    per_decade: int
    figures: dict[str, list[Cell]]
    results_dir: Folder

    def __post_init__(self):
        for key in ("seeds", "steps", "per_decade"):
            require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1")
        for key in ("eta", "eps"):
            require(getattr(self, key) > 0, key, getattr(self, key), "must be above 0")
        require(all(0 <= b < 1 for b in self.betas), "betas", self.betas, "must lie in [0, 1)")
        low, high = self.band
        require(0 <= low < high <= 1, "band", self.band, "two quantiles, the lower first")
        require(0 < self.rise < 1, "rise", self.rise, "must lie in (0, 1)")
        for name, cells in self.figures.items():
            names = [cell.name for cell in cells]
            require(len(set(names)) == len(names) > 0, f"figures.{name}", names, "distinct names")

    def recorded(self) -> list[int]:
        """Return the recorded steps: 0, the last one, and between them `per_decade` steps each time
        the step grows tenfold."""
        kept, exponent = {0, self.steps}, 0
        while (step := round(10 ** (exponent / self.per_decade))) <= self.steps:
            kept.add(step)
            exponent += 1
        return sorted(kept)
