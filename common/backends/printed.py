"""The comparison of an experiment's settings with the settings that its paper prints.

`papers/<paper>/published/compared.yaml` has an entry for every row of hyperparameters.csv, by its
scope and parameter:

    training:
      learning rate: {optim.lr: 1.0e-6}           our settings, and the printed values
      learning rate 32B: {optim.lr: 1.8e-7, where: {model.name: CWM 32B}}   only where this holds
      hardware: the profile says it               why it is not compared
      reference: {note: two readings}             a deviation that no value shows
    toy: no training                              why no row of this scope is compared

A setting is a dotted key of the Experiment, or a key of `derived`. `unless` is the opposite of
`where`. A row does not apply to an experiment that lacks one of its settings.
"""

import csv
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from typing import Any, NamedTuple

from common.config.files import ROOT, read
from common.datasets.prompts import stated
from common.datasets.templates import INSTRUCTIONS, render
from common.errors import UserError, require
from common.experiment import Experiment

APART = ("where", "unless", "note")  # keys of an entry that are no settings
MISSING = object()


class EvalSampling(NamedTuple):
    """The sampling settings with which the jobs of a sweep evaluate a trained model."""

    n: int
    temperature: float
    top_p: float
    max_tokens: int
    draws: tuple[int, int] | None  # questions and draws of a subsampled set
    checkpoints: tuple = ()
    # printed benchmark -> problems, max_tokens, temperature, system prompt, chat
    sets: Mapping[str, dict] = {}


class Compared(NamedTuple):
    """A printed row and our value for it. `same` is None if they were not compared: for `reason`,
    or, without a reason, because the row is about other experiments."""

    row: dict
    ours: Any
    same: bool | None
    reason: str = ""
    note: bool = False

    @property
    def difference(self) -> str:
        row = self.row
        said, source = (short(row[column]) for column in ("value", "source"))
        printed = "" if self.note else f", printed {said}"
        return f"{row['scope']}: {row['parameter']}: {self.ours}{printed} ({source})"


def beside(x: Experiment, sampled: EvalSampling | None = None) -> list[Compared]:
    """Return every printed row with our value for it."""
    folder = ROOT / "papers" / x.paper / "published"
    with open(folder / "hyperparameters.csv", newline="") as file:
        printed = list(csv.DictReader(file))
    said, ours = _comparisons(x.paper), asdict(x) | derived(x, sampled)
    return [_compare(x, row, said, ours) for row in printed]


@cache
def _comparisons(paper: str) -> dict:
    return read(ROOT / "papers" / paper / "published" / "compared.yaml")


def entry(row: dict, comparisons: dict) -> str | dict:
    """Return the entry of compared.yaml for a printed row. Raises UserError if it is missing."""
    scope = comparisons.get(row["scope"], {})
    found = scope if isinstance(scope, str) else scope.get(row["parameter"])
    require(
        found is not None,
        "compared.yaml",
        f"{row['scope']}: {row['parameter']}",
        "is missing there; add the settings that it is compared with, or why it is not",
    )
    return found


def _compare(x: Experiment, row: dict, comparisons: dict, ours: dict) -> Compared:
    said = entry(row, comparisons)
    if isinstance(said, str):
        return Compared(row, None, None, said)
    apart = x.data.name.startswith("maze") != (row["scope"] == "maze")  # mazes have their own rows
    untrained = x.optim.steps == 0 and row["scope"].endswith(("training", "figures"))
    about = all(_has(ours, key, value) for key, value in said.get("where", {}).items())
    but = said.get("unless", {})
    if apart or untrained or not about or (but and all(_has(ours, *one) for one in but.items())):
        return Compared(row, None, None)
    if "note" in said:
        return Compared(row, said["note"], False, note=True)
    pairs = [(at(ours, key), value) for key, value in said.items() if key not in APART]
    if any(mine is MISSING for mine, _ in pairs):
        return Compared(row, None, None)
    mine = ", ".join(spelled(value) for value, _ in pairs)
    return Compared(row, mine, all(agree(*pair) for pair in pairs))


def _has(ours: dict, key: str, value: Any) -> bool:
    mine = at(ours, key)
    return mine is not MISSING and agree(mine, value)


def at(tree: dict, key: str) -> Any:
    node: Any = tree
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return MISSING
        node = node[part]
    return node


def agree(ours: Any, printed: Any) -> bool:
    """Return whether our value agrees with the printed one: a set of ours contains the printed
    values, a list equals them, a single value is one of them. Texts agree by their letters."""
    if isinstance(ours, frozenset):
        return set(printed) <= ours
    if isinstance(ours, list | tuple):
        return list(ours) == printed
    if isinstance(printed, list):
        return any(agree(ours, one) for one in printed)
    if isinstance(ours, str) and isinstance(printed, str):
        return plain(ours) == plain(printed)
    return ours == printed


def spelled(value: Any) -> str:
    if isinstance(value, list | tuple | frozenset):
        some = sorted(value) if isinstance(value, frozenset) else value
        return " and ".join(map(spelled, some))
    if isinstance(value, float):
        return f"{value:g}"
    return short(" ".join(str(value).split())) or "none"


def derived(x: Experiment, sampled: EvalSampling | None = None) -> dict[str, Any]:
    """Return the settings that no single key states, by the names that compared.yaml uses."""
    s, o, e, train = x.sampling, x.optim, x.eval, x.data.train
    verl = x.backend == "verl"
    first, *more = x.data.verifier.get("parts", [x.data.verifier])
    grader = first["_target_"].split(".")[2]
    named = {"instruction": train.get("instruction"), "chat": train.get("chat")}
    asked = INSTRUCTIONS.get(named["instruction"])
    problems = [stated(node) or 0 for node in x.data.benchmarks.values()]
    known: dict[str, Any] = {
        "optimizer": "AdamW",
        "scheduler": "cosine_with_min_lr" if o.decay_over else "constant",
        "ppo_epochs": 1,
        "top_p": 1.0,
        "top_k": -1,
        "engine": "vLLM" if verl else "this loop",
        "system": "synchronous",
        "mini_batch": s.prompts // o.mini_batches,
        "completions": s.prompts * s.group_size // o.mini_batches,
        "warmup_ratio": o.warmup_steps / (o.decay_over or o.steps) if o.steps else MISSING,
        "filtered": train.get("solve_rate") is not None,
        "grader": first.get("convention", grader),
        "format": more[0].get("convention", "matched") if more else "none",
        "curve": {
            "problems": sum(problems),
            "first": e.every,
            "benchmarks": frozenset(x.data.benchmarks),
        },
    }
    if sampled is not None:
        drawn = sampled._asdict() | {"benchmarks": frozenset(sampled.sets)}
        known["evaluation"] = {key: value for key, value in drawn.items() if value}
        known["sets"] = sampled.sets
    if asked is not None:
        known["prompt"] = {"system": asked({"problem": ""})[0]}
    known["reward"] = asdict(x.reward)
    known["reward"]["functions"] = "accuracy and format" if more else "accuracy"
    with suppress(UserError):  # a data set that is generated here has no template
        known["template"] = render({"problem": "{input}"}, **named)
    return {key: value for key, value in known.items() if value is not MISSING}


def short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
