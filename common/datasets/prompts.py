"""Prompts from a file; tasks that make their own prompts are in `common/tasks/`."""

import json
from pathlib import Path

from common.config.resolve import resolve
from common.datasets.templates import render
from common.errors import UserError, require
from common.types import Prompt

FIELDS = ("id", "problem", "answer")


def jsonl(*, path: str, instruction: str = "bare", chat: str | None = None) -> list[Prompt]:
    """Prompts from a JSONL file with the fields `id`, `problem`, `answer`.

    The problem is the text that the model continues; with `chat` it is what the user asks, with the
    words of `instruction`, in that markup (common/datasets/templates.py), and choices or options of
    the row stand below it.

    Raises UserError naming the row when a field is missing or empty (an empty answer would score
    every response wrong) or an id occurs twice.
    """
    require(
        chat is not None or instruction == "bare",
        "instruction",
        instruction,
        "goes with a chat markup: set model.chat",
    )
    prompts: dict[str, Prompt] = {}
    for number, row in enumerate(own_rows(path), 1):
        given = row if isinstance(row, dict) else {}
        values = [given.get(name) for name in FIELDS]
        texts = ["" if value is None else str(value).strip() for value in values]
        missing = [name for name, text in zip(FIELDS, texts, strict=True) if not text]
        if missing:
            raise UserError(
                f"{path}, row {number}: missing or empty {missing}; drop the row or fix it"
            )
        text = str(given["problem"])
        if chat is not None:
            text = render(given | {"problem": text}, instruction=instruction, chat=chat)
        prompt = Prompt(texts[0], text, texts[2])
        if prompt.id in prompts:
            raise UserError(
                f"{path}, row {number}: id={prompt.id!r} occurs twice; ids must be unique"
            )
        prompts[prompt.id] = prompt
    return list(prompts.values())


def part(*, of: dict, number: int, parts: int) -> list[Prompt]:
    """The prompts of one of so many equal parts of a set, in their order; `of` is its node."""
    whole = resolve(of, "of")()
    ends = [i * len(whole) // parts for i in (number, number + 1)]
    return whole[slice(*ends)]


def own_rows(path: str) -> list:
    """The rows of a user's JSONL file, UTF-8 with or without a byte order mark. Raises UserError
    naming the line that is none."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UserError(f"{path}: does not exist; correct the path") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: is not UTF-8; save the file as UTF-8") from error
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise UserError(
                    f"{path}, line {number}: is no JSON object ({error}); fix the line"
                ) from error
    return rows


def stated(node: dict) -> int | None:
    """How many prompts the configuration of a set says that it has, at least; None where it does
    not."""
    if "of" in node:  # `part`
        whole = stated(node["of"])
        return whole and -(-whole // node["parts"])
    said = (node.get(key) for key in ("subset", "kept", "rows", "size"))
    number = next((number for number in said if number), None)
    return number[0] if isinstance(number, list) else number


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
