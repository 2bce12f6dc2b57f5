"""Prompts from a file; tasks that make their own prompts are in `common/tasks/`."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from common.config.resolve import resolve
from common.datasets.rows import asked
from common.datasets.templates import render
from common.errors import UserError, one_of, require
from common.types import Prompt

FIELDS = ("id", "problem", "answer")


def jsonl(
    *,
    path: str,
    instruction: str = "bare",
    chat: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> list[Prompt]:
    """Return the prompts of a JSONL file with the fields `id`, `problem`, `answer`; `fields` gives
    them other names: {"problem": "question"}. Chat messages as a problem stand for the only user
    message (rows.asked). If no row has an id, each gets one from its problem.

    Without `chat`, the problem is the text that the model continues. With `chat`, it is what the
    user asks, with the words of `instruction`, in that markup (common/datasets/templates.py), and
    the row's choices or options follow below it.

    Raises UserError naming the row if a field is missing or empty (an empty answer would score
    every response wrong) or holds other messages, or if an id occurs twice.
    """
    asked_for = chat is not None or instruction == "bare"
    require(asked_for, "instruction", instruction, "needs a chat markup: set model.chat")
    names = {name: name for name in FIELDS} | dict(fields or {})
    for name in fields or {}:
        one_of("fields", name, FIELDS)
    rows, prompts = own_rows(path), {}
    unnamed = not any(isinstance(row, dict) and names["id"] in row for row in rows)
    for number, row in enumerate(rows, 1):
        given = row if isinstance(row, dict) else {}
        given = given | {name: given.get(theirs) for name, theirs in names.items()}
        try:
            given["problem"] = asked(given["problem"])
        except ValueError as error:
            raise UserError(f"{path}, row {number}: {names['problem']}: {error}") from error
        if unnamed and given["problem"]:
            given["id"] = hashlib.sha256(str(given["problem"]).encode()).hexdigest()[:12]
        if isinstance(given["answer"], list) and len(given["answer"]) == 1:
            given["answer"] = given["answer"][0]
        if isinstance(given["answer"], list | dict | bool):
            said = f"{names['answer']}={str(given['answer'])[:80]}"
            raise UserError(f"{path}, row {number}: {said} must be one text or number")
        values = [given[name] for name in FIELDS]
        texts = ["" if value is None else str(value).strip() for value in values]
        missing = [names[name] for name, text in zip(FIELDS, texts, strict=True) if not text]
        if missing:
            has = ", ".join(row) if isinstance(row, dict) else "no fields"
            raise UserError(
                f"{path}, row {number}: missing or empty {missing}; it has {has}. Drop the row or "
                "fix it, or name its field with fields.problem=NAME or fields.answer=NAME beside "
                "the path"
            )
        text = str(given["problem"])
        if chat is not None:
            text = render(given | {"problem": text}, instruction=instruction, chat=chat)
        prompt = Prompt(texts[0], text, texts[2])
        if prompt.id in prompts:
            said = f"id={prompt.id!r} occurs twice; ids must be unique"
            if unnamed:
                first = list(prompts).index(prompt.id) + 1
                said = f"asks the same as row {first}; drop one of them, or give each row an id"
            raise UserError(f"{path}, row {number}: {said}")
        prompts[prompt.id] = prompt
    return list(prompts.values())


def part(*, of: dict, number: int, parts: int) -> list[Prompt]:
    """Return the prompts of part `number` (from 0) of `parts` equal ones of the set `of`."""
    whole = resolve(of, "of")()
    ends = [i * len(whole) // parts for i in (number, number + 1)]
    return whole[slice(*ends)]


def fresh(*, size: int, draw: dict, apart_from: list) -> list[Prompt]:
    """Return the first `size` prompts that the task's function `draw` gives and no set of
    `apart_from` has, by their text; both are nodes as in configs/data, `draw` without its size."""
    seen = {prompt.text for node in apart_from for prompt in resolve(node, "apart_from")()}
    wanted = size
    while True:  # a larger draw begins with the same prompts
        drawn = resolve(draw | {"size": wanted}, "draw")()
        found = [prompt for prompt in drawn if prompt.text not in seen]
        if len(found) >= size:
            return found[:size]
        wanted += size - len(found)


OTHERS = {  # what is given instead of JSON lines: how it is known, and pandas' reader for it
    "CSV": (lambda path, _: path.lower().endswith(".csv"), "read_csv(PATH, dtype=str)"),
    "Parquet": (lambda _, data: data.startswith(b"PAR1"), "read_parquet(PATH)"),
    "a JSON list": (lambda _, data: data.lstrip()[:1] == b"[", "read_json(PATH, dtype=False)"),
}


def own_rows(path: str) -> list:
    """Return the rows of a user's JSONL file, UTF-8 with or without a byte order mark. Raises
    UserError for a CSV, Parquet or JSON list, and naming the line that is not UTF-8 or not JSON."""
    try:
        data = Path(path).read_bytes()
        for kind, (known, reader) in OTHERS.items():
            if known(path, data):
                made = f"pandas.{reader}.to_json('rows.jsonl', orient='records', lines=True)"
                raise UserError(f"{path}: is {kind}, not JSON lines; write it as such: {made}")
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"path={path}: {error.strerror}; correct the path") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: is not UTF-8; save the file as UTF-8") from error
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line, parse_constant=_no_number)
                json.dumps(row, ensure_ascii=False).encode()  # fails for half a surrogate pair
                rows.append(row)
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"{path}, line {number}: is not JSON ({error}); fix the line"
                ) from error
    return rows


def _no_number(name: str) -> None:
    """Raise ValueError for NaN and the infinities, which Python's JSON reads."""
    raise ValueError(f"{name} is not a JSON value")


def unique(prompts: list[Prompt], key: str) -> None:
    repeated = [id for id, n in Counter(prompt.id for prompt in prompts).items() if n > 1]
    require(not repeated, key, repeated[:3], "occurs twice; ids must be unique")


def stated(node: dict) -> int | None:
    """Return the least size that a set's configuration states, or None; of a part, its share."""
    if "of" in node:  # the node of a `part`
        whole = stated(node["of"])
        return whole and -(-whole // node["parts"])
    said = (node.get(key) for key in ("subset", "kept", "rows", "size"))
    number = next((number for number in said if number), None)
    return number[0] if isinstance(number, list) else number


def check(prompts: list[Prompt], key: str) -> list[Prompt]:
    """Return the prompts. Raises UserError for none, an empty text or an empty reference answer."""
    if not prompts:
        raise UserError(f"{key}: no prompts; check its path, split or size")
    for prompt in prompts:
        if not prompt.reference or not prompt.text:
            raise UserError(
                f"{key}: prompt id={prompt.id!r} has an empty "
                f"{'text' if not prompt.text else 'reference answer'}; drop the row or fix it"
            )
    return prompts
