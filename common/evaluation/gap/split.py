"""Split the difference of two scores into named parts that add up to it.

One thing after another is changed on the way from A's score to B's:

    problem set   the problems that only A has are dropped
    extraction, grader    A's responses are judged by the judge instead of A's grader
    truncation    the responses of the side with the longer limit are cut at the other's limit; this
                  part is the change in their verdicts
    template, sampling settings, chance    A's responses are replaced by B's, on the same problems,
                  by the same judge, at the same limit: what is left between the two
    extraction, grader    B's responses are judged by B's grader instead of the judge
    problem set   the problems that only B has are added

The part that is left has an interval over problems (`paired.over_problems`). The other parts are
counts on what is stored, and have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from common.evaluation.gap.judge import EITHER, GRADING, READING, Flip, right
from common.evaluation.match import plain
from common.evaluation.side import Problem, Side, same_settings
from common.metrics.paired import over_problems
from common.types import Verdict

SHOWN = 3  # most examples of a part
TOLD_APART = 2  # most causes that a part's name may list


@dataclass(frozen=True)
class Judged:
    """One side's samples of the common problems under the judge. `cut` holds the verdicts on
    responses that were cut at the other side's limit, if that is shorter: {(problem, sample):
    verdict on what is left}."""

    verdicts: list[list[Verdict]]
    flips: list[Flip]
    cut: dict[tuple[int, int], Verdict]


@dataclass(frozen=True)
class Part:
    """One part, in points. `low` and `high` are its 95 % interval over problems, if it has one."""

    name: str
    points: float
    note: str
    low: float | None = None
    high: float | None = None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gap:
    """The difference B - A and its parts; scores are in percent."""

    a: dict
    b: dict
    judge: str
    difference: float
    parts: tuple[Part, ...]
    unknown: tuple[str, ...]

    @property
    def most(self) -> Part:
        return max(self.parts, key=lambda part: abs(part.points))


def split(
    a: Side,
    b: Side,
    pairs: list[tuple[Problem, Problem]],
    judged: tuple[Judged, Judged] | None,
    judge: str,
    cutting: bool | None,
) -> Gap:
    """Return the parts of B - A. `judged` is None if the responses are not judged again. `cutting`
    says whether responses are cut at the other side's limit (None: the limits are not known)."""
    ours, theirs = [p for p, _ in pairs], [p for _, p in pairs]
    unknown: list[str] = []
    parts = [_problem_set(a, b, ours, theirs)]
    before, after = _means(ours), _means(theirs)
    graders_known = judged is not None
    if judged is not None:
        parts += _grading(ours, theirs, *judged)
        parts.append(_truncation(a, b, ours, theirs, judged, cutting))
        before, after = (_judged_means(side) for side in judged)
    elif a.verifier is not None and a.verifier == b.verifier:
        graders_known = True
        unknown.append(
            "The graders have the same options; whether their code was the same is not "
            "known, since responses are missing."
        )
    left = [] if graders_known else [READING, GRADING]
    left += ["truncation"] if cutting is None or (cutting and judged is None) else []
    parts += _rest(a, b, ours, theirs, after - before, left)
    unknown += _untold(a, b, judged, cutting, parts)
    return Gap(
        a=_about(a),
        b=_about(b),
        judge=judge,
        difference=100 * float(np.mean([p.score for p in b.problems]))
        - 100 * float(np.mean([p.score for p in a.problems])),
        parts=tuple(parts),
        unknown=tuple(unknown),
    )


def _about(side: Side) -> dict:
    score = 100 * float(np.mean([problem.score for problem in side.problems]))
    counts = {"problems": len(side.problems), "samples": len(side.problems[0].samples)}
    return {"path": side.path, "kind": side.kind, "model": side.model, "score": score, **counts}


def _means(problems: list[Problem]) -> np.ndarray:
    return np.array([100 * problem.score for problem in problems])


def _judged_means(side: Judged) -> np.ndarray:
    """Return the points of each problem by the judge, at the limit that both sides have."""
    return np.array(
        [
            100 * np.mean([right(side.cut.get((i, j), v)) for j, v in enumerate(row)])
            for i, row in enumerate(side.verdicts)
        ]
    )


def _problem_set(a: Side, b: Side, ours: list[Problem], theirs: list[Problem]) -> Part:
    changes, notes, examples = 0.0, [f"{len(ours)} problems in both"], []
    for side, common, sign, letter in ((a, ours, -1, "A"), (b, theirs, 1, "B")):
        inside = {id(problem) for problem in common}
        alone = [problem for problem in side.problems if id(problem) not in inside]
        changes += sign * float(_means(list(side.problems)).mean() - _means(common).mean())
        what = f"{len(alone)} only in {letter}"
        if alone:
            what += (
                f", which score {_means(alone).mean():.1f} (the others {_means(common).mean():.1f})"
            )
            examples += [f"only in {letter}: {problem.shown}" for problem in alone[:SHOWN]]
        notes.append(what)
    return Part("problem set", changes, "; ".join(notes), examples=tuple(examples))


def _grading(ours: list[Problem], theirs: list[Problem], a: Judged, b: Judged) -> list[Part]:
    parts = []
    for cause in (READING, GRADING, EITHER):
        points, notes, examples = 0.0, [], []
        for problems, side, sign, letter in ((ours, a, 1, "A"), (theirs, b, -1, "B")):
            hits = [flip for flip in side.flips if flip.cause == cause]
            for flip in hits:
                gain = right(flip.judged) - flip.own.right
                samples = len(problems[flip.problem].samples)
                points += sign * 100 * gain / (samples * len(problems))
            up = sum(right(flip.judged) > flip.own.right for flip in hits)
            total = sum(len(problem.samples) for problem in problems)
            if hits or letter == "A":
                notes.append(
                    f"of {letter}'s {total} verdicts the judge makes {up} right and "
                    f"{len(hits) - up} wrong"
                )
            examples += [_example(problems, flip, letter) for flip in hits[:SHOWN]]
        if cause != EITHER or notes[1:] or examples:
            parts.append(Part(cause, points, "; ".join(notes), examples=tuple(examples[:SHOWN])))
    return parts


def _example(problems: list[Problem], flip: Flip, letter: str) -> str:
    problem = problems[flip.problem]
    read = [_shown(flip.own.parsed), _shown(flip.judged.parsed)]
    return (
        f"{letter} {problem.shown} sample {flip.sample}: {flip.own.outcome} ({read[0]}), by "
        f"the judge {flip.judged.outcome} ({read[1]}); ends {flip.own.response[-60:]!a}"
    )


def _shown(parsed: str | None) -> str:
    return "no answer" if parsed is None else f"{parsed[:30]!a}"


def _truncation(
    a: Side,
    b: Side,
    ours: list[Problem],
    theirs: list[Problem],
    judged: tuple[Judged, Judged],
    cutting: bool | None,
) -> Part:
    points, notes, examples = 0.0, [], []
    for side, problems, own, sign, letter in (
        (a, ours, judged[0], -1, "A"),
        (b, theirs, judged[1], 1, "B"),
    ):
        flags = [sample.stopped for problem in problems for sample in problem.samples]
        limit = "limit not stored" if side.max_tokens is None else f"limit {side.max_tokens}"
        if None in flags:
            notes.append(f"{letter}: {limit}, cut off: not stored")
        else:
            notes.append(f"{letter}: {limit}, {flags.count(False)} of {len(flags)} cut off")
        if not own.cut:
            continue
        lost = 0
        for (i, j), verdict in own.cut.items():
            gain = right(own.verdicts[i][j]) - right(verdict)
            points += sign * 100 * gain / (len(problems[i].samples) * len(problems))
            lost += gain > 0
            if gain > 0 and len(examples) < SHOWN:
                sample = problems[i].samples[j]
                examples.append(
                    f"{letter} {problems[i].shown} sample {j}: right with {sample.tokens} "
                    "tokens, at the other's limit not"
                )
        notes.append(
            f"{len(own.cut)} of {letter}'s are longer than the other's limit, {lost} of them right "
            "only beyond it"
        )
    if cutting is None:
        notes.append("not separable: it is in a part below")
    return Part("truncation", points, "; ".join(notes), examples=tuple(examples))


def _same_prompt(a: Side, b: Side, ours: Problem, theirs: Problem) -> bool | None:
    if ours.prompt is None or theirs.prompt is None:
        return None
    if a.exact and b.exact:
        return ours.prompt == theirs.prompt
    return plain(ours.prompt) == plain(theirs.prompt)


def _rest(
    a: Side,
    b: Side,
    ours: list[Problem],
    theirs: list[Problem],
    difference: np.ndarray,
    left: list[str],
) -> list[Part]:
    """Return what is left, by problem: one part for the problems with equal prompts, one for those
    with different prompts, and one for those whose prompts are not stored."""
    differ, unknown = same_settings(a, b)
    same = [_same_prompt(a, b, p, q) for p, q in zip(ours, theirs, strict=True)]
    parts = []
    for value in (True, False, None):
        rows = np.array([one is value for one in same])
        if not rows.any():
            continue
        causes = left + ([] if value else ["template"])
        causes += ["sampling settings"] if differ or unknown else []
        points = np.where(rows, difference, 0.0)
        low = high = None
        if len(points) > 1:
            low, high = (float(x) for x in over_problems(points[None]).bounds())
        words = {True: "the same prompts", False: "other prompts", None: "prompts not stored"}
        note = [f"{rows.sum()} problems with {words[value]}"]
        note += [f"settings: {'; '.join(differ)}"] if differ else []
        if not causes:
            causes = ["chance"]
            note.append("the same settings")
        elif len(causes) > TOLD_APART:
            note.append("any of " + ", ".join(causes))
            causes = ["not told apart"]
        note.append(_in_words(causes[0] == "chance", low, high))
        examples = ()
        if value is False:
            i = int(np.flatnonzero(rows)[0])
            examples = (f"A asks {ours[i].prompt[-90:]!a}", f"B asks {theirs[i].prompt[-90:]!a}")
        name = " + ".join(causes)
        parts.append(Part(name, float(points.mean()), "; ".join(note), low, high, examples))
    return parts


def _in_words(chance: bool, low: float | None, high: float | None) -> str:
    if low is None:
        return "one problem has no interval"
    inside = low <= 0 <= high
    if chance:
        return (
            "what other samples of the same model would differ by"
            if inside
            else "more than chance: something that is not stored differs (weights, engine, type)"
        )
    return "chance alone may be all of it" if inside else "more than chance"


def _untold(
    a: Side,
    b: Side,
    judged: tuple[Judged, Judged] | None,
    cutting: bool | None,
    parts: list[Part],
) -> list[str]:
    """Return what the stored files do not tell, in sentences."""
    said = []
    for side, letter in ((a, "A"), (b, "B")):
        if not side.responses:
            said.append(
                f"{letter} has no responses: nothing can be judged again, so that only the problem "
                "set is told apart."
            )
        if side.model is None:
            said.append(f"{letter} does not say which model it is of: it is taken for the other's.")
    if judged is None and a.responses and b.responses:
        said.append("No verifier of ours belongs to either: give eval=NAME to judge both by one.")
    if cutting is None:
        said.append(
            "Truncation: a token limit or the lengths are not stored, so it cannot be told from "
            "what follows."
        )
    unknown = same_settings(a, b)[1]
    if unknown:
        said.append(f"Sampling settings are not stored ({', '.join(unknown)}).")
    if any(" + " in part.name or part.name == "not told apart" for part in parts):
        said.append(
            "Causes that changed together are one part: stored responses do not show which of them "
            "changed the answers. Evaluate once more with one of them changed."
        )
    return said
