"""Arithmetic puzzles. Expressions that a model wrote are parsed and computed with exact fractions,
never run. Each check returns "" or what is wrong."""

import ast
import operator
import re
from collections import Counter
from fractions import Fraction
from typing import Any

from common.verifiers.synlogic.parse import FENCED, Task, Unparsed, said, stated

LONGEST = 200  # characters of an expression, so that brackets nest at most 200 deep
OPERATORS: dict[type, Any] = {ast.Add: operator.add, ast.Sub: operator.sub}
OPERATORS |= {ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Mod: operator.mod}
OPERATORS |= {ast.UAdd: operator.pos, ast.USub: operator.neg}
SIGNS = {"×": "*", "·": "*", "\\times": "*", "\\cdot": "*", "÷": "/", "\\div": "/", "−": "-"}
EQUATION = re.compile(
    r"(?<![0-9])-?[0-9]{1,20}(?:\s{0,5}[-+*/]\s{0,5}[0-9]{1,20}){0,9}\s{0,5}=\s{0,5}-?[0-9]{1,20}"
)


def value(text: str) -> Fraction:
    """Return the value of an expression in whole numbers, + - * / %, signs and brackets, with
    Python's precedence; a % b has the sign of b. Raises ValueError if `text` is no such expression,
    is too long, or divides by zero."""
    if len(text) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    if not re.fullmatch(r"[-+*/%()0-9\s]+", text):
        raise ValueError("other characters than numbers, + - * / % and brackets")
    if re.search(r"[0-9]{13}|(?<![0-9])0[0-9]", text):
        raise ValueError("a number of more than 12 digits or with a leading zero")
    try:
        return _value(ast.parse(" ".join(text.split()), mode="eval").body)
    except ZeroDivisionError:
        raise ValueError("divides by zero") from None
    except (SyntaxError, KeyError, AttributeError):
        raise ValueError("unbalanced or misplaced tokens") from None


def _value(node: Any) -> Fraction:
    """Raises AttributeError for another node, KeyError for another operator."""
    if isinstance(node, ast.Constant):
        return Fraction(str(node.value))
    if isinstance(node, ast.UnaryOp):
        return OPERATORS[type(node.op)](_value(node.operand))
    return OPERATORS[type(node.op)](_value(node.left), _value(node.right))


def expression(text: str) -> str:
    """Return the stated expression without spaces. Raises Unparsed if it has no value and does not
    divide by zero."""
    plain = _plain(stated(text)).strip()
    try:
        value(plain)
    except ValueError as error:
        if str(error) != "divides by zero":
            raise Unparsed(str(error)) from None
    return "".join(plain.split())


def mathador(text: str, answer: Any, puzzle: dict) -> str:
    """Check that each given number is used once, the operators are allowed and the value is
    right."""
    numbers = [int(number) for number in re.findall(r"[0-9]+", text)]
    if Counter(numbers) != Counter(puzzle["numbers"]):
        return f"uses the numbers {sorted(numbers)}"
    others = sorted(set(re.findall(r"[-+*/%]", text)) - set(puzzle["operators"]))
    if others:
        return f"uses {others}"
    return _true(f"{text}={puzzle['result']}")


def doubled(text: str) -> str:
    """Return what the last [[ ]] holds, else the stated equation; without spaces."""
    end = text.rfind("]]")
    start = text.rfind("[[", 0, max(end, 0))
    inside = text[start + 2 : end] if 0 <= start < end else said(text)
    if inside is None or "=" not in inside or len(inside) > LONGEST:
        raise Unparsed("no equation in [[ ]]")
    return "".join(_plain(inside).split())


def math_path(text: str, answer: Any, puzzle: dict) -> str:
    """Check that the answer is the puzzle with a digit for each "?" and true in exact arithmetic.
    The stored answer is always right."""
    query = "".join(puzzle["query_expr"].split())
    if answer and text == "".join(str(answer).split()):
        return ""
    if len(text) != len(query) or any(
        not ("0" <= mine <= "9") if theirs == "?" else mine != theirs
        for mine, theirs in zip(text, query, strict=True)
    ):
        return "is not the puzzle with a digit for each ?"
    return _true(text)


def equation(text: str) -> str:
    equations = EQUATION.findall(_plain(text))
    if not equations:
        raise Unparsed("no equation between whole numbers")
    return "".join(equations[-1].split())


def cryptarithm(text: str, answer: Any, puzzle: dict) -> str:
    """Check that the answer is the puzzle with a different digit for each letter, that no number
    has a leading zero, and that the equation is true. The stored equation is always right."""
    words, operators = puzzle["letter_words"], puzzle["operators"]
    if answer and text == "".join(str(answer).split()):
        return ""
    query = words[0] + "".join(op + word for op, word in zip(operators, words[1:-1], strict=True))
    query += "=" + words[-1]
    if len(text) != len(query):
        return f"does not fit {query}"
    digits: dict[str, str] = {}
    for mine, theirs in zip(text, query, strict=True):
        if theirs.isalpha():
            if not "0" <= mine <= "9" or digits.setdefault(theirs, mine) != mine:
                return f"does not fit {query}"
        elif mine != theirs:
            return f"does not fit {query}"
    if len(set(digits.values())) < len(digits):
        return "two letters with one digit"
    return _true(text)


def _plain(text: str) -> str:
    for sign, plain in SIGNS.items():
        text = text.replace(sign, plain)
    return text


def _true(text: str) -> str:
    left, _, right = text.partition("=")
    try:
        result, target = value(left), value(right)
    except ValueError as error:
        return str(error)
    return "" if result == target else f"equals {result}"


TASKS = {
    "mathador": Task(expression, mathador, "", ("numbers", "operators", "result")),
    "math_path": Task(doubled, math_path, "[[{}]]", ("query_expr",), "ref_expr"),
    "cryptarithm": Task(equation, cryptarithm, FENCED, ("letter_words", "operators")),
}
