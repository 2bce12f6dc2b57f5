"""Rows of the hub's sets as rows of our shape, where renaming fields does not suffice.

Every function takes one row as the hub has it and returns the fields that it adds or replaces,
under our names (docs/data.md lists them). Pure, no I/O; a row that lacks what is read raises
KeyError or ValueError, which `common.datasets` reports with the row's number.
"""

import json
import random
import re

LETTERS = "ABCDEFGHIJ"


def number(row: dict) -> dict:
    """Answers stored as numbers: 27.0 and 27 are "27"."""
    value = row["answer"]
    return {"answer": str(int(value) if isinstance(value, float) and value.is_integer() else value)}


def asked(value: object) -> object:
    """The text of the one user message of a chat, [{"role": ..., "content": text}, ...], whatever
    the assistant answers; any other value as it is.

    Raises ValueError for a system message, which would be lost, and for several turns."""
    if not isinstance(value, list):
        return value
    chat = [one for one in value if isinstance(one, dict) and isinstance(one.get("content"), str)]
    said = [one["content"] for one in chat if one.get("role") == "user"]
    other = {one.get("role") for one in chat} - {"user", "assistant"}
    if len(chat) != len(value) or len(said) != 1 or other:
        raise ValueError(
            "holds more than the text of one user and an answer; write a field of text"
        )
    return said[0]


def boxed(row: dict) -> dict:
    """The answer is in the last box of the worked solution; "" where that box is empty."""
    return {"answer": last_boxed(row["solution"])}


def gsm8k(row: dict) -> dict:
    """The answer follows "####" in the worked solution."""
    return {"answer": row["answer"].rpartition("####")[2].strip()}


def olympiadbench(row: dict) -> dict:
    """All answers are in the list `final_answer`; its first text is the answer field."""
    return {"answer": row["final_answer"][0]}


def arc(row: dict) -> dict:
    """Labels are A-E in most rows and 1-4 in some: they are lettered again, in order."""
    index = row["choices"]["label"].index(row["answerKey"])
    return {"choices": row["choices"]["text"], "answer": LETTERS[index]}


def gpqa(row: dict, *, seed: int) -> dict:
    """The right answer and three wrong ones, in an order drawn for each question by our own seed:
    the same on every machine and whatever else is drawn."""
    choices = [row["Correct Answer"], *(row[f"Incorrect Answer {i}"] for i in (1, 2, 3))]
    order = random.Random(f"gpqa-{seed}-{row['Question']}").sample(range(4), 4)
    return {
        "choices": [str(choices[i]).strip() for i in order],
        "answer": LETTERS[order.index(0)],
    }


def synlogic(row: dict) -> dict:
    """The prompt is the set's own last message; the verifier reads the puzzle in `extra_info`.

    Tasks that the verifier does not know lose their `data_source`, and are dropped by it.
    """
    from common.verifiers.synlogic import ALIASES, TASKS

    task = row["data_source"].rpartition("/")[2]
    return {
        "problem": row["prompt"][-1]["content"],
        "data_source": task if ALIASES.get(task, task) in TASKS else None,
    }


def livecodebench(row: dict) -> dict:
    """The day of the contest as text; the verifier reads the tests as the hub has them."""
    return {"date": str(row["contest_date"])[:10]}


def taco(row: dict) -> dict:
    """`input_output` is JSON, which some rows have without any test in it: those have none."""
    text = row["input_output"] or "{}"
    return {"input_output": text if json.loads(text).get("inputs") else None}


def codecontests(row: dict) -> dict:
    """No tests where there are none of any kind, or the program would have to use files."""
    kinds = [row[f"{kind}_tests"]["input"] for kind in ("public", "private", "generated")]
    usable = any(kinds) and not (row["input_file"] or row["output_file"])
    return {"public_tests": row["public_tests"] if usable else None}


def last_boxed(text: str) -> str:
    r"""What stands in the last `\boxed{...}` or `\fbox{...}` of a worked solution, as it stands, or
    after `\boxed ` up to the next dollar; "" if there is none or it is not closed."""
    boxes = list(re.finditer(r"\\(?:boxed|fbox)(\s*\{|\s)", text))
    if not boxes:
        return ""
    start, depth = boxes[-1].end(), 1
    if not boxes[-1].group(1).endswith("{"):
        return re.split(r"[$\n]", text[start:], maxsplit=1)[0].strip()
    for match in re.finditer(r"\\.|[{}]", text[start:], re.DOTALL):  # \{ opens nothing
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            return text[start : start + match.start()]
    return ""
