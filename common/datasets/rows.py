"""Convert rows of the hub's sets to our row format, where renaming fields does not suffice.

Every function takes one row as the hub has it and returns the fields that it adds or replaces,
under our names (docs/data.md). A row without a field that is read raises KeyError or ValueError,
which `common.datasets` reports with the row's number.
"""

import json
import random

from common.verifiers.math.extract import last_boxes

LETTERS = "ABCDEFGHIJ"


def number(row: dict) -> dict:
    """Return an answer that is stored as a number as text: 27.0 and 27 both give "27"."""
    value = row["answer"]
    return {"answer": str(int(value) if isinstance(value, float) and value.is_integer() else value)}


def asked(value: object) -> object:
    """Return the text of the one user message of a chat, [{"role": ..., "content": text}, ...]; any
    other value as it is. Raises ValueError for a system message or several user turns."""
    if not isinstance(value, list):
        return value
    chat = [one for one in value if isinstance(one, dict) and isinstance(one.get("content"), str)]
    said = [one["content"] for one in chat if one.get("role") == "user"]
    other = {one.get("role") for one in chat} - {"user", "assistant"}
    if len(chat) != len(value) or len(said) != 1 or other:
        raise ValueError("holds more than one user message and an answer; give a field of text")
    return said[0]


def boxed(row: dict) -> dict:
    """Return the last box of the worked solution as the answer; "" without one."""
    return {"answer": (last_boxes(row["solution"]) or [""])[-1]}


def gsm8k(row: dict) -> dict:
    return {"answer": row["answer"].rpartition("####")[2].strip()}


def olympiadbench(row: dict) -> dict:
    return {"answer": row["final_answer"][0]}


def arc(row: dict) -> dict:
    """Return the choices, and the answer as its letter by position: labels are A-E or 1-4."""
    index = row["choices"]["label"].index(row["answerKey"])
    return {"choices": row["choices"]["text"], "answer": LETTERS[index]}


def gpqa(row: dict, *, seed: int) -> dict:
    """Return the right and three wrong answers in an order drawn for each question by `seed`."""
    choices = [row["Correct Answer"], *(row[f"Incorrect Answer {i}"] for i in (1, 2, 3))]
    order = random.Random(f"gpqa-{seed}-{row['Question']}").sample(range(4), 4)
    return {"choices": [str(choices[i]).strip() for i in order], "answer": LETTERS[order.index(0)]}


def synlogic(row: dict) -> dict:
    """Return the set's own last message as the problem. Tasks that the verifier does not know lose
    their `data_source`, by which their rows are dropped."""
    from common.verifiers.synlogic import ALIASES, TASKS

    task = row["data_source"].rpartition("/")[2]
    return {
        "problem": row["prompt"][-1]["content"],
        "data_source": task if ALIASES.get(task, task) in TASKS else None,
    }


def livecodebench(row: dict) -> dict:
    """Return the day of the contest as text. The verifier reads the tests as the hub has them."""
    return {"date": str(row["contest_date"])[:10]}


def taco(row: dict) -> dict:
    """Return the JSON `input_output`, or None if it holds no test, as in some rows."""
    text = row["input_output"] or "{}"
    return {"input_output": text if json.loads(text).get("inputs") else None}


def codecontests(row: dict) -> dict:
    """Return `public_tests`; None without any tests, or if the program would have to use files."""
    kinds = [row[f"{kind}_tests"]["input"] for kind in ("public", "private", "generated")]
    usable = any(kinds) and not (row["input_file"] or row["output_file"])
    return {"public_tests": row["public_tests"] if usable else None}
