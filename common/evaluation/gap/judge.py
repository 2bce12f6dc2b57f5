"""Judge the samples of both sides by one verifier, and say why it disagrees with a side's own
grader.

Responses are judged in the pool's workers only, as everywhere. This module reads nothing of them
but the answers that a grader had parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from common.evaluation.side import Problem, Sample
from common.types import Verdict, Verify
from common.verifiers.choice import PREFIX
from common.verifiers.math.extract import balanced
from common.verifiers.pool import Pool

READING, GRADING, EITHER = "extraction", "grader", "extraction or grader"
# These make a response that states a bare answer: a verifier can then judge an answer alone.
STATED: dict[str, Callable[[str], str]] = {
    "common.verifiers.math.verify": lambda answer: (
        f"The answer is $\\boxed{{{balanced(answer)}}}$."
    ),
    "common.verifiers.choice.verify": lambda answer: (
        f"The answer is ({answer}).\n{PREFIX} {answer}.\n\\boxed{{{answer}}}"
    ),
}


@dataclass(frozen=True)
class Judge:
    """A verifier that can be run. `state` is None if it cannot be asked about bare answers."""

    verify: Verify
    state: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Flip:
    """A sample on which its own grader and the judge disagree."""

    problem: int
    sample: int
    own: Sample
    judged: Verdict
    cause: str


def right(verdict: Verdict) -> float:
    """Return 1.0 for a right verdict, else 0.0, as an evaluation counts: a sum of rewards is right
    by its first part."""
    return float(verdict.outcome == "correct")


@contextmanager
def judging(verifier: dict, *, deadline: float, workers: int, memory_gb: float) -> Iterator[Judge]:
    """Yield a judge on a pool of its own."""
    with Pool(verifier, workers=workers, deadline=deadline, memory_gb=memory_gb) as pool:
        yield Judge(pool.map, STATED.get(verifier["_target_"]))


def verdicts(
    judge: Judge, problems: list[Problem], references: list[str], texts: list[list[str]]
) -> list[list[Verdict]]:
    """Return the judge's verdicts on `texts`, the responses to each of `problems`."""
    flat = [(text, ref) for ref, some in zip(references, texts, strict=True) for text in some]
    said = iter(judge.verify(flat))
    return [[next(said) for _ in some] for some in texts]


def flips(
    problems: list[Problem],
    judged: list[list[Verdict]],
    references: list[str],
    judge: Judge,
    own: Judge | None,
) -> list[Flip]:
    """Return the samples on which the verdicts differ, each with its cause.

    extraction  the two read different answers: the one that says wrong read none, or one that the
                other would not take either
    grader      the other would take the answer that was read and called wrong; or one of them gave
                up (timeout, error)

    `own` is the side's own grader, if it can be run; it is asked with its own references. If a
    grader cannot be run or asked, the parsed answers are compared. Where they are not stored, the
    cause is "extraction or grader".
    """
    apart = [
        (i, j, sample, verdict)
        for i, problem in enumerate(problems)
        for j, (sample, verdict) in enumerate(zip(problem.samples, judged[i], strict=True))
        if sample.right != right(verdict)
    ]
    asked: dict[int, tuple[Judge, tuple[str, str], bool]] = {}
    for at, (i, _, sample, verdict) in enumerate(apart):
        question = _question(sample, verdict, judge, own)
        if question is not None:
            who, answer, taken_is_grading = question
            ref = references[i] if who is judge else problems[i].reference
            asked[at] = (who, (who.state(answer), ref), taken_is_grading)
    takes = {}
    for who in (judge, own):
        mine = {at: pair for at, (one, pair, _) in asked.items() if one is who}
        if mine:
            takes |= dict(zip(mine, who.verify(list(mine.values())), strict=True))
    result = []
    for at, (i, j, sample, verdict) in enumerate(apart):
        if at in takes:
            cause = GRADING if (takes[at].outcome == "correct") == asked[at][2] else READING
        else:
            cause = _by_parsed(sample, verdict)
        result.append(Flip(i, j, sample, verdict, cause))
    return result


def _question(
    sample: Sample, verdict: Verdict, judge: Judge, own: Judge | None
) -> tuple[Judge, str, bool] | None:
    """Return (who is asked, about which answer, whether taking it means that the grading differs);
    None if no one can be asked."""
    if sample.outcome == "part" or {sample.outcome, verdict.outcome} & {"timeout", "error"}:
        return None
    own_is_right = sample.right > right(verdict)
    wrong, winner = (verdict.parsed, own) if own_is_right else (sample.parsed, judge)
    if wrong is not None and winner is not None and winner.state is not None:
        return winner, wrong, True
    if own_is_right and own is None and sample.parsed is not None and judge.state is not None:
        return judge, sample.parsed, False  # would the judge take what the other read?
    return None


def _by_parsed(sample: Sample, verdict: Verdict) -> str:
    if {sample.outcome, verdict.outcome} & {"timeout", "error"}:
        return GRADING
    outcome, parsed = verdict.outcome, verdict.parsed
    if right(verdict) > sample.right:
        outcome, parsed = sample.outcome, sample.parsed
    if outcome == "unparsed" and parsed is None:
        return READING
    if sample.parsed is None or verdict.parsed is None:
        return EITHER
    return GRADING if sample.parsed == verdict.parsed else READING
