"""Settings of the hidden states' measurement, checked."""

from dataclasses import dataclass
from pathlib import Path

from common.errors import require


@dataclass(frozen=True)
class States:
    prompts: int
    group_size: int
    seed: int
    N: list[int]  # tokens of made-up data
    K: list[int]  # wrong modes
    delta: list[float]
    p: float  # share of right tokens
    noise: float
    width: int  # d of made-up data
    results_dir: str

    def __post_init__(self):
        for key in ("prompts", "group_size", "width"):
            require(getattr(self, key) >= 2, key, getattr(self, key), "must be at least 2")
        require(0 < self.p < 1, "p", self.p, "must be in (0, 1)")
        for K in self.K:
            require(1 <= K <= self.width - 2, "K", K, f"must be 1..width-2={self.width - 2}")
        for N in self.N:
            require(N >= 2, "N", N, "must be at least 2")
        for delta in self.delta:
            require(delta > 0, "delta", delta, "must be above 0")

    @property
    def folder(self) -> Path:
        return Path(self.results_dir) / "fade" / "hidden_states"
