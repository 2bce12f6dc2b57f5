"""The prompts of an experiment."""

from common.config.resolve import resolve
from common.datasets.prompts import check, training
from common.datasets.templates import of_model
from common.experiment import Experiment
from common.types import Prompt


def prompts(x: Experiment) -> tuple[list[Prompt], dict[str, list[Prompt]]]:
    """Training prompts, and those of each benchmark. Raises UserError as `check` does."""

    def templated(node: dict) -> dict:
        return of_model(node, x.model.path, x.model.revision)

    train = check(training(templated(x.data.train), "data.train"), "data.train")
    benchmarks = {
        name: check(
            resolve(templated(node), f"data.benchmarks.{name}")(), f"data.benchmarks.{name}"
        )
        for name, node in x.data.benchmarks.items()
    }
    return train, benchmarks
