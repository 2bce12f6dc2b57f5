"""Settings of the covariance statistics, checked."""

from dataclasses import dataclass

from common.config.schema import Folder
from common.errors import require


@dataclass(frozen=True)
class Covariance:
    experiment: str
    overrides: list[str]
    steps: int
    seed: int
    eta: float
    shares: list[float]
    bins: int
    results_dir: Folder

    def __post_init__(self):
        for key in ("steps", "bins"):
            require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1")
        require(self.eta > 0, "eta", self.eta, "must be above 0")
        require(
            bool(self.shares) and all(0 < share <= 1 for share in self.shares),
            "shares",
            self.shares,
            "each in (0, 1]",
        )
