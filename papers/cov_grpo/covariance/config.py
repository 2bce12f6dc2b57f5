"""Settings of the covariance statistics, with checks."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from common.config.schema import Folder
from common.errors import require


@dataclass(frozen=True)
class Covariance:
    row: str  # of configs/reproduce.yaml
    overrides: list[str]
    steps: PositiveInt
    seeds: Annotated[list[NonNegativeInt], Field(min_length=1)]
    eta: PositiveFloat
    shares: Annotated[list[Annotated[float, Field(gt=0, le=1)]], Field(min_length=1)]
    results_dir: Folder

    def __post_init__(self):
        require(len({*self.seeds}) == len(self.seeds), "seeds", self.seeds, "give each once")
