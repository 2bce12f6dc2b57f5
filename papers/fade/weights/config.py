"""Settings of the weight changes' measurement, checked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.config.schema import Folder
from common.errors import require


@dataclass(frozen=True)
class Geometry:
    before: str | None
    after: list[str]
    name: str  # of the folder that the tables go to
    full_up_to: int  # shorter side, up to which all singular values are computed
    rank: int  # leading singular values of larger matrices
    oversample: int
    iterations: int
    seed: int
    delta: float  # of srank
    block_mb: float  # of float32 numbers that are in memory at once, of each checkpoint
    dtype: Literal["float32", "float64"]  # of differences and of the randomised products
    memory_gb: float  # GB of 1e9 bytes that the process may take
    results_dir: Folder

    def __post_init__(self):
        require(
            (self.before is None) == (not self.after),
            "after",
            self.after,
            "give before=FOLDER and after=[FOLDER,...], or neither for the runs below results_dir",
        )
        require(self.rank >= 2, "rank", self.rank, "must be at least 2, for s1/s2")
        for key in ("oversample", "iterations", "full_up_to", "seed"):
            require(getattr(self, key) >= 0, key, getattr(self, key), "must be >= 0")
        require(0 < self.delta < 1, "delta", self.delta, "must be in (0, 1)")
        for key in ("block_mb", "memory_gb"):
            require(getattr(self, key) > 0, key, getattr(self, key), "must be above 0")

    @property
    def folder(self) -> Path:
        return Path(self.results_dir) / "fade" / "geometry" / self.name
