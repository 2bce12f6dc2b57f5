"""Functions that turn a row of reasoning chains into a conversation, or say why it is left out.

FADE Sec. 3 says only that DeepSeek-R1 generated the chains and that all have the same <think> tags,
so these are the two filters. A row that lacks a field that is read raises KeyError.
"""

from collections.abc import Callable

from common.datasets.templates import INSTRUCTIONS
from common.verifiers import format as tags

ELSEWHERE = "-"  # OpenCodeReasoning-2's question where the problem's text is in another data set
BROKEN = "without one closed thought and an answer after it"


def code(row: dict, question: Callable[[dict], str | None]) -> list[dict] | str:
    """Return the conversation of a row of OpenCodeReasoning-2, or the reason to leave it out. Its
    chains are all DeepSeek-R1's; the instruction is from FADE's RL prompts."""
    problem = question(row) if row["question"] == ELSEWHERE else row["question"]
    if not (problem or "").strip():
        return "whose problem is empty at its source"
    return conversation({"problem": problem.strip()}, "code", row["r1_generation"])


def maths(row: dict, question: Callable[[dict], str | None]) -> list[dict] | str:
    """Return the conversation of a row of OpenMathReasoning, or the reason to leave it out. The
    instruction is from configs/eval/aime24.yaml."""
    if row["generation_model"] != "DeepSeek-R1":
        return "of another model than DeepSeek-R1"
    return conversation({"problem": row["problem"]}, "boxed_system", row["generated_solution"])


def conversation(row: dict, instruction: str, said: str) -> list[dict] | str:
    """Return the system (if the instruction has one), user and assistant messages; BROKEN where
    `said` has not exactly one closed thought and an answer after it."""
    if tags.verify(said, "").outcome != "correct":
        return BROKEN
    system, user = INSTRUCTIONS[instruction](row)
    turns = [("system", system), ("user", user), ("assistant", said.strip())]
    return [{"role": role, "content": text} for role, text in turns if text]


def problem(name: str, row: dict) -> str | None:
    """Return the text of a problem in a data set that OpenCodeReasoning-2 refers to, composed as by
    its authors (NVIDIA's NeMo-Skills, recipes/opencodereasoning, prepare_questions.py)."""
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
