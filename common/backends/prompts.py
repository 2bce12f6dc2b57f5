"""The prompts of an experiment."""

from common.backends.solve_rates import measurements
from common.config.resolve import resolve
from common.datasets.commits import read_from
from common.datasets.prompts import check
from common.datasets.solve_rate import chooser, rates, unfiltered
from common.datasets.templates import CHATS, OWN, of_model
from common.errors import require
from common.experiment import Experiment
from common.types import Prompt


def prompts(x: Experiment) -> tuple[list[Prompt], dict[str, list[Prompt]]]:
    """Return the prompts of training and of each benchmark. Raises UserError as `check` does, and
    for an unknown chat or unmeasured solve rates."""
    chats = [*CHATS, OWN]
    require(x.model.chat in (None, *chats), "model.chat", x.model.chat, f"use one of {chats}")
    needed = measurements(x)
    known: dict[str, float] = {}
    for one in needed:  # first: reading a data set takes minutes
        known |= rates(one.path / "counts.csv")
    train = _loaded(x, unfiltered(x.data.train), "data.train")
    if needed:
        train = chooser(x.data.train, "data.train")(prompts=train, rates=known)
    benchmarks = x.data.benchmarks.items()
    return train, {name: _loaded(x, node, f"data.benchmarks.{name}") for name, node in benchmarks}


def _loaded(x: Experiment, node: dict, key: str) -> list[Prompt]:
    return check(resolve(of_model(node, x.model.path, x.model.revision), key)(), key)


def sets(x: Experiment) -> dict[str, str]:
    """Return what each public data set of `x` was read from: {name: HUB@COMMIT or sha256:HASH}."""
    return read_from([x.data.train, *x.data.benchmarks.values()])
