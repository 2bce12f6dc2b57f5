"""The settings of the simulation, with checks."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from common.config.schema import Decay, Folder
from common.errors import require


@dataclass(frozen=True)
class Simulation:
    objective: Literal["score", "printed", "eq7"]
    optimizer: Literal["sgd", "adam", "adamw"]
    N: list[Annotated[int, Field(ge=2, le=2**24)]]  # group sizes: samples a step
    gamma: list[NonNegativeFloat]  # focal exponents; 0 is no focal weight
    seeds: PositiveInt  # number of seeds, which are 0 .. seeds-1
    steps: PositiveInt
    every: PositiveInt  # steps between recorded rows
    actions: int
    correct: PositiveInt  # correct actions, the anchor included
    anchor_logit: float
    correct_logit: float
    incorrect_logit: float
    R_c: float
    R_w: float
    lr: PositiveFloat
    betas: tuple[Decay, Decay]
    eps: PositiveFloat
    weight_decay: NonNegativeFloat  # adamw only
    workers: PositiveInt
    results_dir: Folder

    def __post_init__(self):
        wrong = self.actions - self.correct
        require(wrong >= 1, "correct", self.correct, f"must be below actions={self.actions}")
        require(self.R_c > self.R_w, "R_c", self.R_c, f"must exceed R_w={self.R_w}")

    @property
    def reading(self) -> str:
        return f"{self.objective}_{self.optimizer}"
