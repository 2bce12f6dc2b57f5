"""A benchmark as configs/eval/<name>.yaml describes it."""

from dataclasses import dataclass
from typing import Any

from common.errors import require


@dataclass(frozen=True)
class Benchmark:
    """One file of configs/eval: what is asked, how it is judged, and how it is sampled."""

    name: str
    prompts: dict[str, Any]  # dotted path to a function that returns list[Prompt], and arguments
    verifier: dict[str, Any]  # dotted path to (response, reference) -> Verdict, and options
    deadline: float  # seconds a verdict may take before its worker is killed
    n: int  # samples a problem
    temperature: float
    top_p: float
    max_tokens: int  # response tokens

    def __post_init__(self):
        require(self.deadline > 0, "deadline", self.deadline, "must be above 0 seconds")
        require(self.n > 0, "n", self.n, "must be at least 1")
        require(self.temperature > 0, "temperature", self.temperature, "must be above 0")
        require(0 < self.top_p <= 1, "top_p", self.top_p, "must be in (0, 1]")
        require(self.max_tokens > 0, "max_tokens", self.max_tokens, "must be at least 1")
