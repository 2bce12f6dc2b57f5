"""Samples that other programs dumped, and the benchmark's problems that they belong to.

verl (0.9.1)      `trainer.validation_data_dir` and `rollout_data_dir`: `<step>.jsonl`, one object a
                  sample with input, output, gts, score, step (and uid). The input is decoded
                  without special tokens, so it is the chat template's text around the problem.
lm-eval (0.4.13)  `--log_samples`: `samples_<task>_<date>.jsonl`, one object a problem and filter
                  with doc, arguments, resps. All of `resps` are read: lm-eval's own filters keep
                  the first response of `repeats` unless told otherwise (its issue 3351), so its
                  score is one of one response. Multiple choice by log-likelihood has no responses
                  and is refused.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.results.files import read_jsonl
from common.types import Prompt

SPECIAL = re.compile(r"<[|｜][^|｜<>]{1,40}[|｜]>")
ID_FIELDS = ("id", "unique_id", "problem_id", "key", "task_id")
TEXT_FIELDS = ("problem", "question", "Problem", "Question", "prompt")


@dataclass(frozen=True)
class Dumped:
    """One response as it was dumped: where it came from, what was asked (its id if known, texts of
    which one should be the problem or contain it), and what it was scored there (None: unknown)."""

    where: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    response: str
    score: float | None


def verl(files: list[Path]) -> list[Dumped]:
    """Rows of verl's dumps. Raises UserError for a missing field or files of several steps."""
    found, steps = [], set()
    for file in files:
        for number, row in enumerate(read_jsonl(file), 1):
            where = f"{file}, row {number}"
            _need(row, ("input", "output", "score", "step"), where)
            steps.add(row["step"])
            ids = (str(row["problem_id"]),) if "problem_id" in row else ()  # in dumps of our runs
            texts, score = (str(row["input"]),), _number(row["score"])
            found.append(Dumped(where, ids, texts, str(row["output"]), score))
    if len(steps) > 1:
        raise UserError(
            f"files hold {len(steps)} steps ({sorted(steps)[:5]}); import one checkpoint at a time"
        )
    return found


def lm_eval(files: list[Path]) -> list[Dumped]:
    """Rows of lm-eval's samples, one a response; a problem's rows of other filters are the same
    responses and are left out. Raises UserError for a missing field or log-likelihood requests."""
    found = []
    for file in files:
        seen = set()
        for number, row in enumerate(read_jsonl(file), 1):
            where = f"{file}, row {number}"
            _need(row, ("doc_id", "doc", "resps"), where)
            if row["doc_id"] in seen:
                continue
            seen.add(row["doc_id"])
            doc = row["doc"] if isinstance(row["doc"], dict) else {}
            ids = tuple(str(doc[name]) for name in ID_FIELDS if name in doc)
            texts = [str(doc[name]) for name in TEXT_FIELDS if isinstance(doc.get(name), str)]
            arguments = row.get("arguments", {}).get("gen_args_0", {})
            texts.append(str(arguments.get("arg_0", "")))
            for request in row["resps"]:
                for response in request:
                    if not isinstance(response, str):
                        raise UserError(
                            f"{where}: holds log-likelihoods, not responses; only generated text "
                            "can be scored again"
                        )
                    found.append(Dumped(where, ids, tuple(texts), response, None))
    return found


READERS = {"verl": verl, "lm_eval": lm_eval}


def match(
    dumped: list[Dumped], prompts: list[Prompt]
) -> tuple[dict[str, list[Dumped]], list[Dumped]]:
    """Each problem's samples in the order of the files, and the samples of no problem.

    A sample belongs to the problem with its id; else to the one whose text is one of its texts;
    else to the one whose text stands last in one of them (after the examples of a few-shot prompt;
    the longest where several end there). Texts are compared without special tokens and runs of
    blanks. Problems whose texts are equal are told apart by id only: their samples are of no
    problem otherwise.
    """
    ids = {prompt.id: prompt.id for prompt in prompts}
    texts: dict[str, list[str]] = defaultdict(list)
    for prompt in prompts:
        texts[plain(prompt.text)].append(prompt.id)
    known: dict[tuple, str | None] = {}  # a problem's samples share their texts
    groups, alone = defaultdict(list), []
    for one in dumped:
        key = (one.ids, one.texts)
        if key not in known:
            by_id = next((ids[name] for name in one.ids if name in ids), None)
            known[key] = by_id or _by_text([plain(text) for text in one.texts], texts)
        if known[key] is None:
            alone.append(one)
        else:
            groups[known[key]].append(one)
    return dict(groups), alone


def plain(text: str) -> str:
    """`text` without special tokens such as <|im_end|>, each run of blanks one blank."""
    return " ".join(SPECIAL.sub(" ", text).split())


def _by_text(candidates: list[str], texts: dict[str, list[str]]) -> str | None:
    for text in candidates:
        if text in texts:
            return texts[text][0] if len(texts[text]) == 1 else None
    for text in candidates:
        inside = [known for known in texts if known in text]
        if inside:
            last = max(inside, key=lambda known: (text.rfind(known) + len(known), len(known)))
            return texts[last][0] if len(texts[last]) == 1 else None
    return None


def _need(row: object, names: tuple[str, ...], where: str) -> None:
    missing = [name for name in names if not isinstance(row, dict) or name not in row]
    if missing:
        raise UserError(f"{where}: no field {missing[0]}; it was not dumped by this program")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
