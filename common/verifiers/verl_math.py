r"""The math verifier, except that references of this module are compared by verl's reward for MATH
(verl.utils.reward_score.math_reward): as rewritten texts, without algebra. So each set of a run has
the comparison that its `reference` asks for.

By the rules of MATH's authors 0.5 is \frac{1}{2}, but 0.75 is not \frac{3}{4}.
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
    r"""Return math's verdict, or, for a reference of this module, verl's, where unparsed means: no
    closed \boxed{...}. Raises UserError where verl is not installed."""
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
    """Return the reference of a data row. Raises UserError as math's does, where verl is not
    installed, and for a row that states a tolerance or a unit, which no text can have."""
    gold = math.reference(row)
    require(not gold.startswith('{"'), f"row {row.get('id')}", gold[:80], "verl compares texts")
    _verl()
    return json.dumps({MARK: gold})


def example(reference: str) -> str | None:
    return math.example(_gold(reference) or reference)


def _gold(reference: str) -> str | None:
    return json.loads(reference)[MARK] if reference.startswith(f'{{"{MARK}": ') else None


@cache
def _verl() -> ModuleType:
    """Return verl's module, read from its file: importing verl takes seconds, brings Ray, and
    starts a thread in the process that forks the workers."""
    spec = find_spec("verl")  # does not import it
    if spec is None or spec.origin is None:
        raise UserError(
            "verifier=verl_math: verl is not installed in this environment; install it with make "
            "setup-cluster (GPUs) or make setup-cluster-cpu"
        )
    file = Path(spec.origin).parent / "utils" / "reward_score" / "math_reward.py"
    return module({"_target_": f"{file}:is_equiv"})
