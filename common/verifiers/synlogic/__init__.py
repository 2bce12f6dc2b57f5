"""Verifier of SynLogic: 24 logic puzzles, each checked by its own rules or stored answer.

The tasks, how their answers are read and where we differ from the authors' verifiers
(MiniMax-AI/SynLogic, games/tasks) are in docs/verifiers.md. No text of a model is evaluated: lists
and expressions go through small bounded parsers (parse.py, expressions.py).
"""

import ast
import json
from contextlib import suppress
from typing import Any

from common.errors import UserError, require
from common.types import Verdict
from common.verifiers.synlogic import cell_grids, expressions, number_grids, text
from common.verifiers.synlogic.parse import Task, Unparsed, canonical, final

TASKS: dict[str, Task] = number_grids.TASKS | cell_grids.TASKS | expressions.TASKS | text.TASKS
ALIASES = {"game_of_24": "mathador"}  # name of upstream's folder: its name in the data


def verify(response: str, reference: str) -> Verdict:
    """Return the verdict on the last answer after the thinking in `response`: "correct" if it obeys
    the puzzle's rules or equals the stored answer, "unparsed" without an answer of the asked form;
    else `reason` says what is broken. Raises UserError for a reference that `reference` did not
    make."""
    task, answer, puzzle = _unpacked(reference)
    try:
        given = task.read(final(response))
    except Unparsed as error:
        return Verdict("unparsed", 0.0, reason=canonical(str(error)))
    try:
        fault = task.check(given, answer, puzzle)
    except Unparsed as error:
        raise UserError(f"reference answer={str(answer)[:80]!r}: {error}") from None
    if fault:
        return Verdict("wrong", 0.0, canonical(given), canonical(fault))
    return Verdict("correct", 1.0, canonical(given))


def reference(row: dict) -> str:
    """Return {"answer", "metadata", "task"} of a row as JSON: the stored answer, and the parts of
    the puzzle that the check needs.

    `row` has `data_source`, `answer` and `metadata` (an object, or its text), as in the shared
    sample. On the hub, `extra_info.game_data_str` holds the last two instead. A puzzle that is
    checked by its rules may have no answer. Raises UserError that names the row and the missing
    field.
    """
    where = f"row {row.get('id', row.get('index', '?'))}"
    name = str(row.get("data_source", "")).rsplit("/", 1)[-1]
    name = ALIASES.get(name, name)
    said = f"known tasks: {', '.join(sorted(TASKS))}"
    require(name in TASKS, f"{where}: data_source", name, said)
    extra = _object(row.get("extra_info"), f"{where}: extra_info")
    game = _object(extra.get("game_data_str"), f"{where}: game_data_str") or row
    metadata = _object(game.get("metadata"), f"{where}: metadata")
    task, answer = TASKS[name], game.get("answer")
    if answer in ("", [], None):
        answer = metadata.get(task.stored)
    there = not task.gold or answer not in ("", None)
    said = f"{name} is compared with it; drop the row"
    require(there, f"{where}: answer", repr(answer), said)
    for key in task.keys:
        require(key in metadata, f"{where}: metadata.{key}", None, f"{name} needs it; drop the row")
    puzzle = {key: metadata[key] for key in task.keys}
    return json.dumps(
        {"task": name, "answer": answer, "metadata": puzzle}, sort_keys=True, ensure_ascii=False
    )


def example(reference: str) -> str | None:
    """Return the stored answer in the prompts' form; None without a stored answer, for mathador,
    which stores no expression, and for futoshiki, whose stored answers break its rules."""
    task, answer, _ = _unpacked(reference)
    return None if answer in ("", None) or not task.form else task.form.format(answer)


def _unpacked(reference: str) -> tuple[Task, str | None, dict]:
    try:
        node = json.loads(reference)
        task, answer, puzzle = TASKS[node["task"]], node["answer"], node["metadata"]
        missing = [key for key in task.keys if key not in puzzle]
    except (ValueError, KeyError, TypeError):
        missing = ["task, answer or metadata"]
    require(not missing, "reference", reference[:80], f"{missing} missing: use reference(row)")
    if not isinstance(answer, str | None):
        answer = json.dumps(answer, ensure_ascii=False)
    return task, answer, puzzle


def _object(value: Any, where: str) -> dict:
    """Return `value`, parsed as JSON or as a Python literal if it is a string (of the data set)."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            with suppress(ValueError, SyntaxError):
                value = ast.literal_eval(value)
    value = {} if value is None else value
    said = "must be an object or the text of one"
    require(isinstance(value, dict), where, repr(value)[:80], said)
    return value
