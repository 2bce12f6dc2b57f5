"""Verifier of Subset-Countdown that takes a near miss."""

from common.types import Verdict
from common.verifiers import countdown

reference, example = countdown.reference, countdown.example


def verify(response: str, reference: str, *, within: int) -> Verdict:
    """As `countdown.verify`; an expression that is off by at most `within` is correct too."""
    verdict = countdown.verify(response, reference)
    if verdict.outcome != "wrong" or not verdict.reason.startswith("equals "):
        return verdict
    value, target = int(verdict.reason.removeprefix("equals ")), int(reference.split(" = ")[1])
    if abs(value - target) > within:
        return verdict
    return Verdict("correct", 1.0, verdict.parsed, f"off by {abs(value - target)}")
