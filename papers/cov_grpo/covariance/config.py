"""Settings of the covariance statistics, with checks."""

from dataclasses import dataclass

from common.config.schema import Folder
from common.errors import require


@dataclass(frozen=True)
class Covariance:
    experiment: str
    overrides: list[str]
    steps: int
    seeds: list[int]
    eta: float
    shares: list[float]
    bin_width: float
    results_dir: Folder

    def __post_init__(self):
        require(self.steps >= 1, "steps", self.steps, "must be at least 1")
        for key in ("eta", "bin_width"):
            require(getattr(self, key) > 0, key, getattr(self, key), "must be above 0")
        once = bool(self.seeds) and len(set(self.seeds)) == len(self.seeds)
        require(once and min(self.seeds) >= 0, "seeds", self.seeds, "give each once, from 0 on")
        require(
            bool(self.shares) and all(0 < share <= 1 for share in self.shares),
            "shares",
            self.shares,
            "each in (0, 1]",
        )
