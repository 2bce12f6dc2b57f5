"""Functions that write a stored answer as a response in the form that the prompts ask for."""

import json
from typing import Any


def bare(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def fenced(answer: Any) -> str:
    return f"```python\n{bare(answer)}\n```"


def boxed(answer: Any) -> str:
    return f"The answer is $\\boxed{{{bare(answer)}}}$."


def doubled(answer: Any) -> str:
    return f"[[{bare(answer)}]]"


def none(answer: Any) -> None:
    """Return None, for a task whose stored answer is not a response."""
