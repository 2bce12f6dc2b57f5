"""Settings of the measurement of hidden states, with checks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.config.schema import Folder
from common.errors import require


@dataclass(frozen=True)
class States:
    prompts: int
    group_size: int
    seed: int
    checkpoints: list[str]  # folders; empty: the laptop runs below results_dir
    of: list[str]  # overrides of a FADE experiment: the checkpoints use its prompts and verifier
    device: Literal["cpu", "cuda"]
    responses: int  # the number of responses that the model reads at once
    block_mb: float  # size of the block of v = e_y - pi that is in memory at once
    dtype: Literal["float32", "float64"]  # type of the sums over tokens
    memory_gb: float  # limit for the process and the device together, in GB of 1e9 bytes
    N: list[int]  # numbers of tokens of synthetic data
    K: list[int]  # numbers of wrong modes
    delta: list[float]
    p: float  # share of right tokens
    noise: float
    width: int  # d of synthetic data
    results_dir: Folder

    def __post_init__(self):
        for key in ("prompts", "group_size", "width"):
            require(getattr(self, key) >= 2, key, getattr(self, key), "must be at least 2")
        for key in ("responses", "block_mb", "memory_gb"):
            require(getattr(self, key) > 0, key, getattr(self, key), "must be above 0")
        require(
            bool(self.checkpoints) == bool(self.of),
            "of",
            self.of,
            "give checkpoints=[FOLDER,...] with of=[experiment=NAME], or neither",
        )
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
