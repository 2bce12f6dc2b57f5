"""Prompts from a file; tasks that make their own prompts are in `common/tasks/`."""

from pathlib import Path

from common.errors import UserError
from common.results import read_jsonl
from common.types import Prompt


def jsonl(*, path: str) -> list[Prompt]:
    """Prompts from a JSONL file with the fields `id`, `problem` (the text the model continues),
    `answer`.

    Raises UserError naming the row when a field is missing, an answer is empty (it would score
    every response wrong) or an id occurs twice.
    """
    prompts: dict[str, Prompt] = {}
    for number, row in enumerate(read_jsonl(Path(path)), 1):
        missing = {"id", "problem", "answer"} - set(row)
        if missing:
            raise UserError(f"{path}, row {number}: no {sorted(missing)}; every row needs them")
        prompt = Prompt(str(row["id"]), row["problem"], str(row["answer"] or "").strip())
        if prompt.id in prompts:
            raise UserError(
                f"{path}, row {number}: id={prompt.id!r} occurs twice; ids must be unique"
            )
        prompts[prompt.id] = prompt
    return list(prompts.values())


def check(prompts: list[Prompt], key: str) -> list[Prompt]:
    """The prompts, or a UserError if there are none or one has an empty text or reference
    answer."""
    if not prompts:
        raise UserError(f"{key}: no prompts; check its path, split or size")
    for prompt in prompts:
        if not prompt.reference or not prompt.text:
            raise UserError(
                f"{key}: prompt id={prompt.id!r} has an empty "
                f"{'text' if not prompt.text else 'reference answer'}; drop the row or mend it"
            )
    return prompts
