"""One row of a set of reasoning chains as the messages of a conversation, or why it is left out.

FADE Sec. 3 says of the chains that DeepSeek-R1 generated them and that all have the same <think>
tags, and nothing more: those are the filters. Pure, no I/O; a row that lacks what is read raises
KeyError.
"""

from collections.abc import Callable

from common.datasets.templates import INSTRUCTIONS
from common.verifiers import format as tags

ELSEWHERE = "-"  # OpenCodeReasoning-2's question: the problem stays with the set that it came from
BROKEN = "without one closed thought and an answer after it"


def code(row: dict, question: Callable[[dict], str | None]) -> list[dict] | str:
    """Of OpenCodeReasoning-2, all of whose chains are DeepSeek-R1's; asked as FADE's RL asks."""
    problem = question(row) if row["question"] == ELSEWHERE else row["question"]
    if not (problem or "").strip():
        return "whose problem is empty at its source"
    return conversation({"problem": problem.strip()}, "code", row["r1_generation"])


def maths(row: dict, question: Callable[[dict], str | None]) -> list[dict] | str:
    """Of OpenMathReasoning; asked as configs/eval/aime24.yaml asks."""
    if row["generation_model"] != "DeepSeek-R1":
        return "of another model than DeepSeek-R1"
    return conversation({"problem": row["problem"]}, "boxed_system", row["generated_solution"])


def conversation(row: dict, instruction: str, said: str) -> list[dict] | str:
    """System (where the instruction has one), user and assistant."""
    if tags.verify(said, "").outcome != "correct":
        return BROKEN
    system, user = INSTRUCTIONS[instruction](row)
    turns = [("system", system), ("user", user), ("assistant", said.strip())]
    return [{"role": role, "content": text} for role, text in turns if text]


def problem(name: str, row: dict) -> str | None:
    """The text of a problem in a set that OpenCodeReasoning-2 points into, put together as its
    authors do (NVIDIA's NeMo-Skills, recipes/opencodereasoning, prepare_questions.py)."""
    if name in ("taco", "apps"):
        return row["question"]
    if name == "code_contests" or not row["description"]:
        return row["description"]
    parts = [row["description"]]
    for title, key in (("Input", "input_format"), ("Output", "output_format")):
        parts += [title, row[key]] if row[key] else []
    parts += ["Examples"] if row["examples"] else []
    for example in row["examples"] or []:
        for title in ("input", "output"):
            parts += [title.capitalize(), example[title]] if title in example else []
    parts += ["Note", row["note"]] if row["note"] else []
    return "\n\n".join(parts)
