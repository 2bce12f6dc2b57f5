"""Find the problem of a benchmark to which a stored sample belongs."""

import re
from collections import defaultdict

from common.evaluation.side import Problem, Sample
from common.types import Prompt

SPECIAL = re.compile(r"<[|｜][^|｜<>]{1,40}[|｜]>")


def match(
    logged: list[Problem], prompts: list[Prompt]
) -> tuple[dict[str, list[Sample]], list[Problem]]:
    """Return each prompt's samples in the order of the log, and the logged problems that belong to
    no prompt.

    A logged problem belongs to the prompt with its id; else to the one whose text is one of its
    texts; else to the one whose text stands last in one of them (after the examples of a few-shot
    prompt; if several end there, the longest). Texts are compared without special tokens and with
    each run of blanks as one blank. Prompts with equal texts are told apart by id only; without an
    id, their samples belong to no prompt.
    """
    ids = {prompt.id: prompt.id for prompt in prompts}
    texts: dict[str, list[str]] = defaultdict(list)
    for prompt in prompts:
        texts[plain(prompt.text)].append(prompt.id)
    groups, alone = defaultdict(list), []
    for one in logged:
        by_id = next((ids[name] for name in one.ids if name in ids), None)
        owner = by_id or _by_text([plain(text) for text in one.texts], texts)
        if owner is None:
            alone.append(one)
        else:
            groups[owner] += one.samples
    return dict(groups), alone


def plain(text: str) -> str:
    """Return `text` without special tokens such as <|im_end|>, each run of blanks as one blank."""
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
