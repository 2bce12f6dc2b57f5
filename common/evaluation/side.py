"""An evaluation as problems with samples, whichever program made it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from common.errors import UserError

SETTINGS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "stop")
NEEDED = SETTINGS[:2]  # any other setting that is not given is not set


class Sample(NamedTuple):
    """One response as its own grader scored it; None means not stored."""

    right: float  # 1 or 0; between them: partly right, or a mean of several; nan: not known
    outcome: str
    parsed: str | None = None  # the answer that the grader read
    response: str | None = None
    tokens: int | None = None
    stopped: bool | None = None  # False: cut off by the limit


@dataclass(frozen=True)
class Problem:
    """A problem with its samples. `texts` holds the problem itself, or the prompts that contain
    it."""

    name: str
    texts: tuple[str, ...]
    prompt: str | None  # as the model read it
    samples: tuple[Sample, ...]
    ids: tuple[str, ...] = ()
    reference: str | None = None  # as the side's verifier takes it

    @property
    def shown(self) -> str:
        """The name in messages, shortened to its end; a problem without an id has its text as its
        name."""
        return " ".join(self.name.split())[-40:]

    @property
    def score(self) -> float:
        return sum(sample.right for sample in self.samples) / len(self.samples)


@dataclass(frozen=True)
class Side:
    """An evaluation. A setting that is absent is not known; a setting that is None is "not set"."""

    path: str
    kind: str
    problems: tuple[Problem, ...]
    model: str | None = None  # a name
    weights: Any = None  # exactly which model it is
    verifier: dict | None = None  # None: another program's
    deadline: float = 3.0
    settings: dict[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    exact: bool = True  # are prompts stored with their special tokens?

    @property
    def responses(self) -> bool:
        """Whether all responses are stored."""
        return all(s.response is not None for p in self.problems for s in p.samples)


def checked(side: Side) -> Side:
    """Return `side`. Raises UserError if it has no sample, or problems have different numbers of
    samples."""
    if not side.problems:
        raise UserError(f"{side.path}: holds no sample")
    many = max(side.problems, key=lambda problem: len(problem.samples))
    few = min(side.problems, key=lambda problem: len(problem.samples))
    if len(many.samples) != len(few.samples):
        raise UserError(
            f"{side.path}: problem {few.shown} has {len(few.samples)} samples, problem "
            f"{many.shown} {len(many.samples)}: some are missing; finish the evaluation first"
        )
    return side


def same_model(a: Side, b: Side) -> bool | None:
    """Return whether both evaluations are of one model; None if that is not stored."""
    if a.weights is not None and b.weights is not None:
        common = a.weights.keys() & b.weights.keys()  # older runs lack newer keys
        return bool(common) and all(a.weights[key] == b.weights[key] for key in common)
    if a.model is None or b.model is None:
        return None
    return _short(a.model) == _short(b.model)


def _short(name: str) -> str:
    """Return the last part of a path, of a hub id, or of a hub id written as a file name."""
    return re.split(r"__|/", Path(name).name)[-1].casefold()


def same_settings(a: Side, b: Side) -> tuple[list[str], list[str]]:
    """Return (the settings that differ, as text; the settings that are not known, each with its
    side)."""
    differ, unknown = [], []
    if (a.settings.get("temperature"), b.settings.get("temperature")) == (0, 0):
        return differ, unknown  # greedy: no other setting matters
    for name in SETTINGS:
        missing = [f"{side.path}: {name}" for side in (a, b) if name not in side.settings]
        values = [side.settings.get(name) for side in (a, b)]
        if missing and name in NEEDED:
            unknown += missing
        elif values[0] != values[1]:
            differ.append(f"{name} {values[0]} and {values[1]}")
    return differ, unknown
