"""Verdicts from reward functions that return a truth value or a number."""

from typing import Any

from common.types import Verdict


def of_plain(given: Any) -> Any:
    """Return the Verdict of a truth value or a number: True, or a number from 1 on, is correct; any
    other number is the reward of a wrong response. Return anything else unchanged, for the caller
    to refuse."""
    if isinstance(given, bool | int | float):
        return Verdict("correct" if given >= 1 else "wrong", float(given))
    return given
