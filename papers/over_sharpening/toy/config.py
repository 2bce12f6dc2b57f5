"""The settings of the toy, with checks, and the cells that they define."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from common.config.schema import Folder, Method, Reward
from common.errors import require


@dataclass(frozen=True)
class Cell:
    """IAC's exponent alpha or DLC's mu is 0 where a cell has none."""

    estimator: str
    alpha: float
    mu: float
    lr: float


@dataclass(frozen=True)
class Toy:
    methods: dict[str, Method]  # estimator -> its composed method
    estimators: list[str]
    calibrated: list[str]  # estimators that also run with IAC, with DLC and with both
    optimizers: list[Literal["sgd", "momentum", "adamw"]]
    G: list[Annotated[int, Field(ge=2)]]
    lr: list[PositiveFloat]
    main_lr: float  # learning rate of most figures and of the calibrated cells
    alpha: NonNegativeFloat
    mu: NonNegativeFloat
    importance_cap: float | None  # caps pi_theta / pi_sample under DLC; None: no correction
    start: Literal["zeros", "embeddings"]
    seeds: PositiveInt  # number of seeds, which are 0 .. seeds-1
    steps: PositiveInt
    every: PositiveInt  # steps between recorded points
    traces: PositiveInt  # number of seeds whose single curves are kept
    momentum: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    results_dir: Folder
    reward: Reward
    sampling: dict
    optim: dict

    def __post_init__(self):
        for name in (*self.estimators, *self.calibrated):
            require(name in self.methods, "estimators", name, f"use {', '.join(self.methods)}")
        require(self.main_lr in self.lr, "main_lr", self.main_lr, "must be one of lr")

    @property
    def cells(self) -> list[Cell]:
        plain = [Cell(e, 0.0, 0.0, lr) for e in self.estimators for lr in self.lr]
        pairs = [(self.alpha, 0.0), (0.0, self.mu), (self.alpha, self.mu)]
        return plain + [
            Cell(e, alpha, mu, self.main_lr) for e in self.calibrated for alpha, mu in pairs
        ]
