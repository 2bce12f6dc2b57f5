"""Settings of the measurement of weight changes, with checks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.config.schema import Folder
from common.errors import require


@dataclass(frozen=True)
class Geometry:
    before: str | None
    after: list[str]
    name: str  # name of the folder that the tables go to
    full_up_to: int  # largest shorter side of a matrix with all singular values computed
    rank: int  # number of leading singular values of larger matrices
    oversample: int
    iterations: int
    seed: int
    delta: float  # the delta of srank
    block_mb: float  # float32 numbers of each checkpoint that are in memory at once
    dtype: Literal["float32", "float64"]  # type of differences and of the randomised products
    memory_gb: float  # limit of the process, in GB of 1e9 bytes
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
