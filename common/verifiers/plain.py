"""Reward functions that know nothing of verdicts."""

from typing import Any

from common.types import Verdict


def of_plain(given: Any) -> Any:
    """The Verdict of a truth value or a number: right is True, or 1 and more; any other number is
    the reward of a wrong response. What is neither comes back as it is, for the caller to refuse.
    """
    if isinstance(given, bool | int | float):
        return Verdict("correct" if given >= 1 else "wrong", float(given))
    return given
