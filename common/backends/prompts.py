"""The prompts of an experiment."""

from common.config.resolve import resolve
from common.datasets.prompts import check
from common.datasets.solve_rate import training
from common.experiment import Experiment
from common.types import Prompt


def prompts(x: Experiment) -> tuple[list[Prompt], dict[str, list[Prompt]]]:
    """Training prompts, and those of each benchmark. Raises UserError as `check` does."""
    train = check(training(x.data.train, "data.train"), "data.train")
    benchmarks = {
        name: check(resolve(node, f"data.benchmarks.{name}")(), f"data.benchmarks.{name}")
        for name, node in x.data.benchmarks.items()
    }
    return train, benchmarks
