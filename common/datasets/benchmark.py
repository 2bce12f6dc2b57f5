"""A benchmark as configs/eval/<name>.yaml describes it."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, PositiveFloat, PositiveInt

Probability = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class Benchmark:
    """One file of configs/eval: what is asked, how it is judged, and how it is sampled."""

    name: str
    prompts: dict[str, Any]  # dotted path to a function that returns list[Prompt], and arguments
    verifier: dict[str, Any]  # dotted path to (response, reference) -> Verdict, and options
    deadline: PositiveFloat  # seconds a verdict may take before its worker is killed
    n: PositiveInt  # samples per problem
    temperature: PositiveFloat
    top_p: Probability
    max_tokens: PositiveInt  # response tokens
    # share of the base model's right answers that a trained model scores (evaluation/rare_nll.py)
    rare_share: Probability | None = None
