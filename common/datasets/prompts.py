"""Prompts from a file; tasks that make their own prompts are in `common/tasks/`."""

from pathlib import Path

from common.errors import UserError
from common.results.files import read_jsonl
from common.types import Prompt

FIELDS = ("id", "problem", "answer")


def jsonl(*, path: str) -> list[Prompt]:
    """Prompts from a JSONL file with the fields `id`, `problem` (the text the model continues),
    `answer`.

    Raises UserError naming the row when a field is missing or empty (an empty answer would score
    every response wrong) or an id occurs twice.
    """
    prompts: dict[str, Prompt] = {}
    for number, row in enumerate(read_jsonl(Path(path)), 1):
        given = row if isinstance(row, dict) else {}
        values = [given.get(name) for name in FIELDS]
        texts = ["" if value is None else str(value).strip() for value in values]
        missing = [name for name, text in zip(FIELDS, texts, strict=True) if not text]
        if missing:
            raise UserError(
                f"{path}, row {number}: missing or empty {missing}; drop the row or fix it"
            )
        prompt = Prompt(texts[0], str(given["problem"]), texts[2])
        if prompt.id in prompts:
            raise UserError(
                f"{path}, row {number}: id={prompt.id!r} occurs twice; ids must be unique"
            )
        prompts[prompt.id] = prompt
    return list(prompts.values())


def stated(node: dict) -> int | None:
    """How many prompts the configuration of a set says that it has; None where it does not."""
    said = (node.get(key) for key in ("subset", "kept", "rows", "size"))
    return next((number for number in said if number), None)


def check(prompts: list[Prompt], key: str) -> list[Prompt]:
    """The prompts, or a UserError if there are none or one has an empty text or reference
    answer."""
    if not prompts:
        raise UserError(f"{key}: no prompts; check its path, split or size")
    for prompt in prompts:
        if not prompt.reference or not prompt.text:
            raise UserError(
                f"{key}: prompt id={prompt.id!r} has an empty "
                f"{'text' if not prompt.text else 'reference answer'}; drop the row or fix it"
            )
    return prompts
