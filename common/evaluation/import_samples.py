"""Import samples that other programs drew, and score them with our verifier:
`rlvr import files='GLOB' eval=NAME`."""

from __future__ import annotations

import glob
import math
import sys
from pathlib import Path

from common.config.compose import CONFIGS, compose
from common.config.strict import strict
from common.config.words import split
from common.errors import UserError, require
from common.evaluation.config import PAPER, Evaluate, run_name
from common.evaluation.logs import log
from common.evaluation.match import match
from common.evaluation.rescore import SHOWN
from common.evaluation.samples import COLUMNS
from common.evaluation.store import each, fill, finish, keep_problems, of_part, problems, stored
from common.results.files import hashes
from common.results.run import Run
from common.types import Prompt
from common.verifiers.pool import Pool

ROWS = 4096  # imported samples that are verified and stored at a time


def import_samples(words: list[str]) -> Path:
    """Score the samples of a log with our verifier and return the run folder. The words
    (command-line arguments) are `files=GLOB eval=NAME [label=MODEL] [score=NAME]`.

    tokens, log_prob, stopped and ids stay missing. The column `score` holds what the log's own
    grader said, where it is known: 1, 0 or a value between them. `score=NAME` chooses one of
    several scores. If the log has no samples of some problems, the score is that of a part of the
    benchmark, and its name says so. Raises UserError if no sample belongs to the benchmark, or
    problems have different numbers of samples.
    """
    given, overrides = split(words, {"files": "", "score": ""})
    pattern = given["files"]
    files = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]
    require(bool(files), "files", pattern, "matches no file; give a path or a quoted glob")
    read = log(files, given["score"] or None, every=True)
    x = strict(Evaluate, compose(CONFIGS, [f"label={read.kind}", *overrides], "evaluate"))
    prompts = problems(bare(x.eval.prompts))
    groups, alone = match(list(read.problems), prompts)
    _say_what_matched(groups, alone, prompts)
    config = {"label": x.label, "import": read.kind, "files": hashes(files), "eval": x.benchmark()}
    config |= {"score": given["score"]} if given["score"] else {}
    name = run_name(f"{x.label}-{x.eval.name}", config)
    run = Run(Path(x.results_dir), PAPER, name, config)
    if not run.done:
        keep_problems(run, prompts)
        _score_imported(run, groups, {prompt.id: prompt.reference for prompt in prompts}, x)
        finish(run, of_part(run.path, x.eval.name), x.label, None)
    run.close()
    rows = stored(run.path)
    known = rows[rows["score"].notna()]
    if len(known):
        differ = ((known["score"] > 0) != (known["outcome"] == "correct")).sum()
        print(f"{differ} of {len(known)} samples: the log's score and ours differ")
    print(run.path)
    return run.path


def bare(node: dict) -> dict:
    """Return the node of the prompts as bare problems, since a dump has its own template around
    them."""
    plain = {"instruction": "bare", "chat": "plain", "template": "bare"}
    return node | {key: value for key, value in plain.items() if key in node}


def _say_what_matched(groups: dict, alone: list, prompts: list[Prompt]) -> None:
    matched = sum(map(len, groups.values()))
    print(f"{matched} samples of {len(groups)} of {len(prompts)} problems", file=sys.stderr)
    left = sum(len(problem.samples) for problem in alone)
    if alone:
        names = "; ".join(problem.shown for problem in alone[:SHOWN])
        print(f"{left} samples belong to none and are left out: {names}", file=sys.stderr)
    without = [prompt.id for prompt in prompts if prompt.id not in groups]
    if without and groups:
        names = ", ".join(without[:SHOWN])
        print(f"{len(without)} problems have no sample and no row: {names}", file=sys.stderr)
    require(bool(groups), "files", f"{left} samples", "none is of this benchmark, see eval=")
    few, many = min(groups, key=lambda i: len(groups[i])), max(groups, key=lambda i: len(groups[i]))
    if len(groups[few]) != len(groups[many]):
        raise UserError(
            f"problem {few} has {len(groups[few])} samples, problem {many} {len(groups[many])}; "
            "import files that have the same number for each"
        )


def _score_imported(run: Run, groups: dict, references: dict[str, str], x: Evaluate) -> None:
    import pandas as pd

    flat = [(owner, i, one) for owner, ones in groups.items() for i, one in enumerate(ones)]
    settings: dict = {"workers": x.workers, "deadline": x.eval.deadline}
    settings |= {"memory_gb": x.memory_gb}
    with Pool(x.eval.verifier, **settings) as pool:

        def chunk(start: int) -> pd.DataFrame:
            part = flat[start : start + ROWS]
            verdicts = pool.map([(one.response, references[owner]) for owner, _, one in part])
            rows = [
                (owner, i, one.response, v.outcome, v.parsed, *[None] * 4, _known(one.right))
                for (owner, i, one), v in zip(part, verdicts, strict=True)
            ]
            return pd.DataFrame(rows, columns=[*COLUMNS, "score"], dtype=object)

        fill(run, list(range(0, len(flat), ROWS)), each(chunk))


def _known(score: float) -> float | None:
    return None if math.isnan(score) else score
