"""Tiny program synthesis: write a one-line Python function from two examples of what it returns.

A prompt is "1=6 10=231". The response is `def f(x)` that returns an expression of `x`, numbers, + *
and brackets. The real code verifier (verifiers/code) runs it in the sandbox on the shown inputs and
on one that is not shown.

The functions are a*x*x + b*x + c. The digits of f(10) are the coefficients, except where b has two
digits, and there f(1) decides: two values determine a function. Several programs are right for a
prompt, such as 2*x*x+3*x+1 and x*(2*x+3)+1. The demonstrator that the tiny model is first trained
on is skewed towards small a and the first of these forms. A hash of the coefficients splits the
functions into train, dev (for choosing hyperparameters) and test.
"""

import json
import random
from itertools import product

from common.errors import require
from common.tasks.splits import check_split, split_of
from common.types import Prompt

SHOWN, HIDDEN = (1, 10), (3,)  # inputs of the unit tests: shown in the prompt, and not shown
OPENING, CLOSING = "```python\ndef f(x):\n    return ", "\n```"
A, B, C = range(4), range(13), range(10)
A_WEIGHTS = (0.4, 0.3, 0.2, 0.1)
WAYS = {"falling": 0.6, "rising": 0.25, "nested": 0.15}
WORDS = (*"+*()=x", OPENING, CLOSING, *"0123456789")  # the tiny model's tokens
TIME_LIMIT = 2.0  # seconds per test

Function = tuple[int, int, int]  # a, b, c


def functions(*, split: str, size: int, seed: int, template: str) -> list[Prompt]:
    """Return `size` prompts of distinct functions of a split. The draw is seeded. Raises UserError
    if the split does not hold that many."""
    check_split(split)
    require(template == "bare", "template", template, "must be bare, the only template")
    held = [f for f in product(A, B, C) if any(f[:2]) and split_of(repr(f)) == split]
    require(0 < size <= len(held), "size", size, f"must be 1..{len(held)}, what {split} holds")
    drawn = random.Random(f"functions-{split}-{seed}").sample(held, size)
    return [_prompt(f) for f in drawn]


def demonstrations(*, count: int, seed: int) -> list[tuple[str, str]]:
    """Return `count` (prompt text, response text) pairs of the demonstrator, train split only."""
    rng, rows = random.Random(f"expressions-{seed}"), []
    while len(rows) < count:
        f = rng.choices(A, A_WEIGHTS)[0], rng.choice(B), rng.choice(C)
        if any(f[:2]) and split_of(repr(f)) == "train":
            way = rng.choices(list(WAYS), list(WAYS.values()))[0]
            rows.append((bare(f), f"{OPENING}{write(f, way)}{CLOSING}"))
    return rows


def value(f: Function, x: int) -> int:
    a, b, c = f
    return a * x * x + b * x + c


def write(f: Function, way: str) -> str:
    """Return the function as a Python expression, without terms of coefficient 0. With fewer than
    two terms of x, `nested` gives the same as `falling`."""
    a, b, c = f
    square, line, constant = _times(a, "x*x"), _times(b, "x"), str(c) if c else ""
    if way == "nested" and a and b:
        square, line = f"x*({_times(a, 'x')}+{b})", ""
    terms = [term for term in (square, line, constant) if term]
    return "+".join(reversed(terms) if way == "rising" else terms)


def _times(factor: int, of: str) -> str:
    return "" if factor == 0 else of if factor == 1 else f"{factor}*{of}"


def _prompt(f: Function) -> Prompt:
    tests = [{"input": str(x), "output": str(value(f, x))} for x in SHOWN + HIDDEN]
    fields = {"tests": tests, "test_type": "functional", "fn_name": "f", "time_limit": TIME_LIMIT}
    return Prompt(id=bare(f), text=bare(f), reference=json.dumps(fields, sort_keys=True))


def bare(f: Function) -> str:
    return " ".join(f"{x}={value(f, x)}" for x in SHOWN)
