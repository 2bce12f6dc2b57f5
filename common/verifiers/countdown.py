"""Verifier of Subset-Countdown answers: a bounded recursive-descent parser, never `eval`."""

import re
from collections import Counter
from functools import lru_cache

from common.errors import require
from common.tasks.countdown import Tree, canonical, numbers_in, render, solve, value_of
from common.types import Verdict

LONGEST = 200  # characters of an answer that are looked at; a right answer has at most 30
TOKEN = re.compile(r"[0-9]{1,4}|[-+*()]")


def verify(response: str, reference: str) -> Verdict:
    r"""Return the verdict on the last `\boxed{...}` of `response` against a reference like "3 5 7
    12 = 41".

    An expression is "correct" if it equals the target and uses each number at most once, else
    "wrong"; "unparsed" without a closed box or an expression in it. `parsed` is the canonical form,
    the same for answers that differ only in order and brackets.
    """
    start = response.rfind("\\boxed{")
    end = response.find("}", start)
    if start < 0 or end < 0:
        return Verdict("unparsed", 0.0, reason="no closed \\boxed{}")
    text = response[start + len("\\boxed{") : end]
    try:
        tree = parse(text)
    except ValueError as error:
        return Verdict("unparsed", 0.0, reason=str(error))
    numbers, target = reference.split(" = ")
    spare = Counter(numbers_in(tree)) - Counter(int(number) for number in numbers.split())
    if spare:
        return Verdict("wrong", 0.0, canonical(tree), f"uses {sorted(spare)} too often")
    value = value_of(tree)
    if value != int(target):
        return Verdict("wrong", 0.0, canonical(tree), f"equals {value}")
    return Verdict("correct", 1.0, canonical(tree))


def reference(row: dict) -> str:
    """Return a row's answer, as in "3 5 7 12 = 41". Raises UserError if it has another form."""
    text = str(row.get("answer", ""))
    require(
        re.fullmatch(r"[0-9]+( [0-9]+)* = -?[0-9]+", text) is not None,
        f"row id={row.get('id')!r}, answer",
        repr(text[:80]),
        'must be numbers and target, as in "3 5 7 12 = 41"',
    )
    return text


@lru_cache(maxsize=1000)
def example(reference: str) -> str | None:
    """Return a right response, found by search; None if the target cannot be reached."""
    numbers, target = reference.split(" = ")
    tree = solve(tuple(map(int, numbers.split())), int(target))
    return None if tree is None else f"\\boxed{{{render(tree)}}}"


def parse(text: str) -> Tree:
    """Return the expression tree of `text`. Raises ValueError if it is too long or not an
    expression.

        sum := product (("+" | "-") product)*;  product := atom ("*" atom)*
        atom := number | "(" sum ")"
    """
    if len(text) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    tokens = TOKEN.findall(text)
    if "".join(tokens) != "".join(text.split()):
        raise ValueError("other characters than numbers, + - * and brackets")
    tree, rest = _chain(tokens, "+-")
    if rest:
        raise ValueError("unbalanced or misplaced tokens")
    return tree


def _chain(tokens: list[str], operators: str) -> tuple[Tree, list[str]]:
    operand = (lambda rest: _chain(rest, "*")) if operators == "+-" else _atom
    tree, tokens = operand(tokens)
    while tokens and tokens[0] in operators:
        right, rest = operand(tokens[1:])
        tree, tokens = (tokens[0], tree, right), rest
    return tree, tokens


def _atom(tokens: list[str]) -> tuple[Tree, list[str]]:
    if tokens and tokens[0].isdecimal():
        return int(tokens[0]), tokens[1:]
    if tokens and tokens[0] == "(":
        tree, rest = _chain(tokens[1:], "+-")
        if rest and rest[0] == ")":
            return tree, rest[1:]
    raise ValueError("unbalanced or misplaced tokens")
