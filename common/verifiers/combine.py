"""Sums of rewards, as in cov_grpo: accuracy + format.

    verifier:
      _target_: common.verifiers.combine.verify
      parts:
        - {_target_: common.verifiers.math.verify, weight: 1.0}
        - {_target_: common.verifiers.format.verify, weight: 1.0, convention: open_rs}

All parts get the reference of the first part, so the others must not need another.
"""

import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from common.config.resolve import resolve
from common.errors import require
from common.types import Verdict

LONGEST = 300  # characters of a reason


def of_plain(given: Any) -> Any:
    """Return the Verdict of a truth value or a number: True, or a number from 1 on, is correct;
    another number is the reward of a wrong response. Anything else is returned unchanged."""
    if isinstance(given, bool | int | float):
        return Verdict("correct" if given >= 1 else "wrong", float(given))
    return given


def verify(response: str, reference: str, *, parts: list[dict]) -> Verdict:
    """Return the first part's verdict (accuracy: outcome and parsed answer) with the sum over all
    parts of weight x reward as its reward. The reason gives each part's outcome.

    The sum has the outcome "timeout" or "error" if a part has it, since that reward is not known.
    Every other key of a part is an option of its verifier. Raises UserError for a part that cannot
    be imported, an option that its verifier does not have or a weight that is not a number.
    """
    verdicts, reward = [], 0.0
    for name, weight, judge in _bound(json.dumps(parts)):
        verdict = of_plain(judge(response, reference))
        verdicts.append((name, verdict))
        reward += weight * verdict.reward
    reason = "; ".join(
        f"{name}: {verdict.outcome}" + (f" ({verdict.reason})" if verdict.reason else "")
        for name, verdict in verdicts
    )[:LONGEST]
    for _, verdict in verdicts:
        if verdict.outcome in ("timeout", "error"):
            return Verdict(verdict.outcome, 0.0, None, reason)
    first = verdicts[0][1]
    return Verdict(first.outcome, reward, first.parsed, reason)


@lru_cache(maxsize=64)
def _bound(parts: str) -> list[tuple[str, float, Callable[..., Verdict]]]:
    """Return (short name, weight, verifier with its options bound) of each part."""
    bound, nodes = [], json.loads(parts)
    require(isinstance(nodes, list) and len(nodes) > 0, "parts", parts[:80], "must list verifiers")
    for at, node in enumerate(nodes):
        key = f"parts[{at}]"
        require(isinstance(node, dict), key, node, "must name a verifier by _target_, and a weight")
        weight = node.get("weight")
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        require(number and math.isfinite(weight), f"{key}.weight", weight, "must be a number")
        options = {name: value for name, value in node.items() if name != "weight"}
        judge = resolve(options, key)
        bound.append((node["_target_"].split(".")[-2], float(weight), judge))
    return bound
