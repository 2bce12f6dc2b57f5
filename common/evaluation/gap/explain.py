"""Split the difference of two named evaluations into its parts: read, match, judge, split."""

from __future__ import annotations

import glob
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from common.config.compose import CONFIGS, compose
from common.config.strict import strict
from common.errors import UserError, require
from common.evaluation.config import Evaluate
from common.evaluation.gap.folders import counts, folder
from common.evaluation.gap.judge import Judge, flips, judging, verdicts
from common.evaluation.gap.match import matched
from common.evaluation.gap.split import Gap, Judged, split
from common.evaluation.import_samples import bare
from common.evaluation.logs import log
from common.evaluation.side import Problem, Side, checked, same_model
from common.evaluation.store import problems


@dataclass(frozen=True)
class Options:
    """The options of `rlvr explain-gap`, besides the two evaluations."""

    judge: str = ""  # a or b: the side whose verifier judges both; "": b's, else a's
    eval: str = ""  # a benchmark of configs/eval whose verifier judges both
    a_score: str | None = None
    b_score: str | None = None
    benchmark: str | None = None
    same_model: bool = False
    workers: int = 2
    memory_gb: float = 4.0


Pairs = list[tuple[Problem, Problem]]


def explain(a: str, b: str, options: Options) -> Gap:
    """Return the difference of B's score and A's, split into parts. Raises UserError if the two
    cannot be compared: another model, no common problem, an unfinished run, missing samples."""
    ours = load(a, options.a_score, options.benchmark)
    theirs = load(b, options.b_score, options.benchmark)
    if not options.same_model and same_model(ours, theirs) is False:
        raise UserError(
            f"A is of the model {ours.model}, B of {theirs.model}: what differs is the model, too. "
            "Give same_model=true where both names mean the same weights"
        )
    pairs = matched(ours, theirs)
    if not pairs:
        raise UserError(f"no problem of {a} is one of {b}, by id or text: they share no benchmark")
    cutting = _cutting(ours, theirs, pairs)
    name, verifier, references = _judge(ours, theirs, pairs, options)
    if verifier is None or not (ours.responses and theirs.responses):
        return split(ours, theirs, pairs, None, "none, nothing was judged again", cutting)
    with ExitStack() as stack:
        workers, memory_gb = options.workers, options.memory_gb

        def start(node: dict, deadline: float) -> Judge:
            pool = judging(node, deadline=deadline, workers=workers, memory_gb=memory_gb)
            return stack.enter_context(pool)

        judge = start(verifier, max(ours.deadline, theirs.deadline))
        judged = []
        for side, other, index in ((ours, theirs, 0), (theirs, ours, 1)):
            own = None
            if side.verifier is not None:
                same = side.verifier == verifier
                own = judge if same else start(side.verifier, side.deadline)
            common = [pair[index] for pair in pairs]
            limit = other.max_tokens if cutting and _longer(side, other) else None
            judged.append(judge_side(common, references, judge, own, limit))
        return split(ours, theirs, pairs, (judged[0], judged[1]), name, cutting)


def load(name: str, score: str | None, benchmark: str | None) -> Side:
    """Return the evaluation in a run folder, a table of counts, or the log that a path or quoted
    glob names."""
    path = Path(name)
    if path.is_dir():
        return checked(folder(path, benchmark))
    files = [path] if path.is_file() else [Path(one) for one in sorted(glob.glob(name))]
    require(bool(files), "log", name, "is no folder or file, and matches none")
    if path.suffix == ".csv":
        return checked(counts(path, benchmark))
    return checked(log(files, score))


def judge_side(
    common: list[Problem], references: list[str], judge: Judge, own: Judge | None, limit: int | None
) -> Judged:
    """Return one side's samples as the judge sees them. Samples of more than `limit` tokens are cut
    there and judged once more.

    A text is cut in proportion: the share limit / tokens of its characters is kept.
    """
    texts = [[sample.response for sample in problem.samples] for problem in common]
    said = verdicts(judge, common, references, texts)
    cut = {}
    if limit is not None:
        cut = {
            (i, j): sample.response[: len(sample.response) * limit // sample.tokens]
            for i, problem in enumerate(common)
            for j, sample in enumerate(problem.samples)
            if sample.tokens > limit
        }
        short = judge.verify([(text, references[i]) for (i, _), text in cut.items()])
        cut = dict(zip(cut, short, strict=True))
    return Judged(said, flips(common, said, references, judge, own), cut)


def _longer(side: Side, other: Side) -> bool:
    return side.max_tokens > other.max_tokens


def _cutting(a: Side, b: Side, pairs: Pairs) -> bool | None:
    """Return whether the token limits differ, so that one side can be cut; None if that cannot be
    said."""
    samples = [s for pair in pairs for problem in pair for s in problem.samples]
    if all(sample.stopped for sample in samples):
        return False  # nothing was cut off on either side
    if a.max_tokens is None or b.max_tokens is None:
        return None
    if a.max_tokens == b.max_tokens:
        return False
    longer = 0 if _longer(a, b) else 1
    return True if all(s.tokens is not None for p in pairs for s in p[longer].samples) else None


def _judge(a: Side, b: Side, pairs: Pairs, options: Options) -> tuple[str, dict | None, list[str]]:
    """Return (the judge in words, its verifier, the references of the common problems)."""
    if options.eval:
        return _judge_of_benchmark(a, pairs, options.eval)
    sides = {"a": (a, 0), "b": (b, 1)}
    require(options.judge in ("", "a", "b"), "judge", options.judge, "a or b")
    for letter in [options.judge] if options.judge else ["b", "a"]:
        side, index = sides[letter]
        references = [pair[index].reference for pair in pairs]
        if side.verifier is not None and None not in references:
            name = side.verifier["_target_"]
            more = [f"{k}={v}" for k, v in side.verifier.items() if k != "_target_"]
            return (
                f"{letter.upper()}'s verifier, {' '.join([name, *more])}",
                side.verifier,
                references,
            )
    require(not options.judge, "judge", options.judge, "that side has no verifier of ours")
    return "none", None, []


def _judge_of_benchmark(a: Side, pairs: Pairs, name: str) -> tuple[str, dict, list[str]]:
    x = strict(Evaluate, compose(CONFIGS, [f"eval={name}"], "evaluate"))
    asked = problems(bare(x.eval.prompts))
    known = Side(
        path=name,
        kind="benchmark",
        problems=tuple(Problem(p.id, (p.text,), None, (), (p.id,), p.reference) for p in asked),
    )
    references = {id(p): hit.reference for p, hit in matched(a, known)}
    missing = [p.name for p, _ in pairs if id(p) not in references]
    require(not missing, "eval", name, f"{len(missing)} common problems are not in it")
    return f"the verifier of eval={name}", x.eval.verifier, [references[id(p)] for p, _ in pairs]
