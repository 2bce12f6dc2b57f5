"""The settings of the toy, with checks: the cells of each figure, and what is recorded."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from common.config.schema import Decay, Folder
from common.errors import require
from papers.two_stage.theory.formulas import expected_path


@dataclass(frozen=True)
class Cell:
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (pydantic's own name)

    name: str
    rewards: list[float]
    policy: list[PositiveFloat]
    G: Annotated[int, Field(ge=2)]  # a group of one has no advantage
    temperature: PositiveFloat
    hold: Literal["policy", "logits"]

    def __post_init__(self):
        fits = len(self.rewards) == len(self.policy) > 1 and abs(sum(self.policy) - 1) < 1e-9
        remedy = f"needs {len(self.rewards)} probabilities above 0, one per reward, that sum to 1"
        require(fits, f"figures, cell {self.name}: policy", self.policy, remedy)

    @property
    def best(self) -> int:
        return max(range(len(self.rewards)), key=self.rewards.__getitem__)

    @property
    def leader(self) -> int:
        others = [v for v in range(len(self.policy)) if v != self.best]
        return max(others, key=self.policy.__getitem__)

    def expected(self, config: "Toy", negative_only: bool):
        """Return the policy at the recorded steps if every plain step is its expectation,
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
    seeds: PositiveInt  # number of seeds, which are 0 .. seeds-1
    steps: PositiveInt
    eta: PositiveFloat
    betas: tuple[Decay, Decay]
    eps: PositiveFloat
    temperature_gradient: bool
    rise: Annotated[float, Field(gt=0, lt=1)]
    band: tuple[float, float]
    per_decade: PositiveInt
    figures: dict[str, list[Cell]]
    results_dir: Folder

    def __post_init__(self):
        low, high = self.band
        require(0 <= low < high <= 1, "band", self.band, "two quantiles, the lower first")

    def recorded(self) -> list[int]:
        """Return the recorded steps: 0, the last, and `per_decade` for each tenfold between."""
        kept, exponent = {0, self.steps}, 0
        while (step := round(10 ** (exponent / self.per_decade))) <= self.steps:
            kept.add(step)
            exponent += 1
        return sorted(kept)
