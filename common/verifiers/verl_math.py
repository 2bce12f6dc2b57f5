"""The math verifier, but for references of this module: these are compared by verl's own reward for
MATH (verl.utils.reward_score.math_reward), which compares rewritten texts, without algebra.

So a run has one verifier, and each of its sets the comparison that its `reference` asks for. By the
rules of MATH's authors 0.5 is \\frac{1}{2}, but 0.75 is not \\frac{3}{4}.
"""

import json
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from common.config.resolve import module
from common.errors import UserError, require
from common.types import Verdict
from common.verifiers import math

PRELOAD = math.PRELOAD
MARK = "verl_math"  # of a reference of this module


def verify(response: str, reference: str) -> Verdict:
    """Return math's verdict, or, for a reference of this module, verl's. Then unparsed means: no
    \\boxed{...}, or one that never closes. Raises UserError where verl is not installed."""
    gold = _gold(reference)
    if gold is None:
        return math.verify(response, reference)
    verl = _verl()
    try:
        text = verl.remove_boxed(verl.last_boxed_only_string(response) or "")
    except AssertionError:
        return Verdict("unparsed", 0.0, reason="no closed box")
    right = verl.is_equiv(text, gold)
    with suppress(AssertionError, IndexError):  # several units, or a root of nothing: as it is
        text = verl.strip_string(text)
    return Verdict("correct" if right else "wrong", float(right), text[:200])


def reference(row: dict) -> str:
    """Return the reference of a data row. Raises UserError as math's does, for a row that states a
    tolerance or a unit, which no text can have, and where verl is not installed."""
    gold = math.reference(row)
    require(not gold.startswith('{"'), f"row {row.get('id')}", gold[:80], "verl compares texts")
    _verl()
    return json.dumps({MARK: gold})


def example(reference: str) -> str | None:
    """Return a response that is correct."""
    return math.example(_gold(reference) or reference)


def _gold(reference: str) -> str | None:
    return json.loads(reference)[MARK] if reference.startswith(f'{{"{MARK}": ') else None


@cache
def _verl() -> ModuleType:
    """Return verl's module. It is read from its file, which imports nothing: importing verl takes
    seconds, brings Ray, and starts a thread in the process that forks the workers."""
    spec = find_spec("verl")  # does not import it
    if spec is None or spec.origin is None:
        raise UserError(
            "verifier=verl_math: verl is not installed in this environment; make setup-cluster "
            "(GPUs) or make setup-cluster-cpu makes one that has it"
        )
    file = Path(spec.origin).parent / "utils" / "reward_score" / "math_reward.py"
    return module({"_target_": f"{file}:is_equiv"})
