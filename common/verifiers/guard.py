"""Checks that stop a run whose rewards cannot be trusted, before anything is learnt from them.

A broken grader looks like a bad model: every reward is 0, and training continues for days. So
canaries, pairs with known verdicts, precede each batch through the same workers.
"""

import inspect
from contextlib import contextmanager

from common.config.resolve import import_target, module
from common.config.schema import Verification
from common.errors import UserError
from common.types import Prompt, Verdict, Verify
from common.verifiers.pool import TOO_LATE, Pool
from common.verifiers.worker import NO_MEMORY

# How many other references a right answer is tried against. A path through a maze is right in every
# fourth other maze; with 4 of them, some runs of hundreds of batches would be stopped by chance.
SWAPPED = 15
THOUGHT = "<think>\n</think>\n"  # before an example, where no response is right without a thought


@contextmanager
def judges(verifier: dict, verification: Verification):
    with _pool(verifier, verification) as pool:
        yield guarded(pool.map, dict(verifier), max_faults=verification.max_faults)


def lasting(verifier: dict, verification: Verification) -> Verify:
    pool = _pool(verifier, verification)
    return guarded(pool.map, dict(verifier), max_faults=verification.max_faults)


def seeing(verifier: dict, prompt: Prompt) -> dict:
    """Return the verifier's node; where the prompt ends in <think>, with `opened`, if the verifier
    has that option and the node does not set it."""
    if not prompt.text.rstrip().endswith("<think>"):
        return verifier
    if "parts" in verifier:
        first, *others = verifier["parts"]  # the first part decides the outcome
        return verifier | {"parts": [seeing(first, prompt), *others]}
    function = import_target(verifier["_target_"], "verifier._target_")
    has = "opened" in inspect.signature(function).parameters
    return ({"opened": True} if has else {}) | verifier


def prepare(verifier: dict) -> None:
    """Let a verifier such as the code verifier raise UserError where it cannot work, before any
    compute is spent."""
    getattr(module(_first(verifier)), "prepare", lambda: None)()


def _pool(verifier: dict, v: Verification) -> Pool:
    prepare(dict(verifier))
    return Pool(dict(verifier), workers=v.workers, deadline=v.deadline, memory_gb=v.memory_gb)


def guarded(verify: Verify, verifier: dict, *, max_faults: float) -> Verify:
    """Return `verify` with checks before and after each batch. If one of them fails, UserError
    names the verifier and what it did.

    Before: the `example` of a reference of the batch (or the module's right pair KNOWN, where
    references determine no answer) must be correct, the empty response must not, and an example
    must not be correct for all other references. After: the share of verdicts that are faults
    (`is_fault`) must not exceed max_faults; a single fault is always allowed.
    """
    first = _first(verifier)
    judge = module(first)
    thought = THOUGHT if first.get("opened") or first.get("strict") else ""
    own = getattr(judge, "example", lambda reference: None)
    known = getattr(judge, "KNOWN", None)
    known = known and (thought + known[0], known[1])
    name = verifier["_target_"]

    def example(reference: str) -> str | None:
        text = own(reference)
        return text if text is None else thought + text

    def checked(pairs: list[tuple[str, str]]) -> list:
        if not pairs:
            return []
        references = list(dict.fromkeys(reference for _, reference in pairs))
        _check_canaries(verify, name, known, example, references)
        verdicts = verify(pairs)
        faults = [v for v in verdicts if is_fault(v)]
        if len(faults) > max(1, max_faults * len(verdicts)):
            raise UserError(
                f"verifier {name}: {len(faults)} of {len(verdicts)} verdicts are timeouts or "
                f"errors, more than verification.max_faults={max_faults:g}; the last: "
                f"{faults[-1].outcome}, {faults[-1].reason}. Fix the verifier, or raise "
                "verification.deadline; nothing was learnt from this batch"
            )
        return verdicts

    return checked


def _first(verifier: dict) -> dict:
    return verifier["parts"][0] if "parts" in verifier else verifier


def is_fault(verdict: Verdict) -> bool:
    """Return whether the verifier failed. The timeout of a program that it ran is no failure."""
    unjudged = verdict.reason.startswith((TOO_LATE, NO_MEMORY))
    return verdict.outcome == "error" or (verdict.outcome == "timeout" and unjudged)


def _check_canaries(verify: Verify, name: str, known, example, references: list[str]) -> None:
    right = next(((text, r) for r in references[:8] if (text := example(r)) is not None), known)
    canaries = [("", references[0])]
    if right is not None:
        others = [r for r in references[: 2 * SWAPPED] if example(r) not in (None, right[0])]
        canaries += [right, *((right[0], r) for r in others[:SWAPPED])]
    empty, *rest = verify(canaries)
    if rest and rest[0].outcome == "timeout":  # a machine under load is not a fault of the verifier
        rest[:1] = verify([right])
    said = "the rewards cannot be trusted, nothing was learnt from this batch"
    if empty.outcome == "correct":
        raise UserError(f"verifier {name} calls an empty response correct; {said}")
    if rest and rest[0].outcome != "correct":
        raise UserError(
            f"verifier {name} calls a right answer {rest[0].outcome} ({rest[0].reason[:200]}); "
            f"response {right[0][:80]!r}, reference {right[1][:80]!r}; {said}"
        )
    if len(rest) > 3 and all(v.outcome == "correct" for v in rest):
        raise UserError(
            f"verifier {name} calls one answer correct for {len(rest)} different prompts, response "
            f"{right[0][:80]!r}; {said}"
        )
