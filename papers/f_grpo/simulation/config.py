"""The settings of the simulation, with checks of their values."""

from dataclasses import dataclass

from common.config.schema import Folder
from common.errors import require

OBJECTIVES = ("score", "printed", "eq7")
OPTIMIZERS = ("sgd", "adam", "adamw")


@dataclass(frozen=True)
class Simulation:
    objective: str
    optimizer: str
    N: list[int]  # group sizes: samples a step
    gamma: list[float]  # focal exponents; 0 is no focal weight
    seeds: int  # number of seeds, which are 0 .. seeds-1
    steps: int
    every: int  # steps between recorded rows
    actions: int
    correct: int  # correct actions, the anchor included
    anchor_logit: float
    correct_logit: float
    incorrect_logit: float
    R_c: float
    R_w: float
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float  # adamw only
    workers: int
    device: str
    results_dir: Folder

    def __post_init__(self):
        require(self.objective in OBJECTIVES, "objective", self.objective, "|".join(OBJECTIVES))
        require(self.optimizer in OPTIMIZERS, "optimizer", self.optimizer, "|".join(OPTIMIZERS))
        require(bool(self.N), "N", self.N, "name at least one group size")
        for N in self.N:
            require(2 <= N <= 2**24, "N", N, "a group needs 2 to 2^24 samples")
        require(
            bool(self.gamma),
            "gamma",
            self.gamma,
            "name at least one exponent, 0 for no focal weight",
        )
        for gamma in self.gamma:
            require(gamma >= 0, "gamma", gamma, "must be >= 0")
        for key in ("N", "gamma"):
            values = getattr(self, key)
            require(len(set(values)) == len(values), key, values, "names a value twice")
        for key in ("seeds", "steps", "every", "workers"):
            require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1")
        require(
            1 <= self.correct < self.actions,
            "correct",
            self.correct,
            f"must be 1..actions-1={self.actions - 1}, so that both rewards occur",
        )
        require(self.R_c > self.R_w, "R_c", self.R_c, f"must exceed R_w={self.R_w}")
        for key in ("lr", "eps"):
            require(getattr(self, key) > 0, key, getattr(self, key), "must be above 0")
        require(
            all(0 <= beta < 1 for beta in self.betas), "betas", self.betas, "must lie in [0, 1)"
        )
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "must be >= 0")
        require(self.device in ("auto", "cpu", "cuda"), "device", self.device, "auto|cpu|cuda")

    @property
    def reading(self) -> str:
        return f"{self.objective}_{self.optimizer}"
