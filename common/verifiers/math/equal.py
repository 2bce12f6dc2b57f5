"""Equality of whole answers: lists, sets, tuples, intervals, relations, times, words.

value.py compares their parts. The gold decides what matters: the order of a tuple does, the order
of a list (1, 2), a set or a union does not. An answer with more or other values is not equal.
"""

import re
from dataclasses import replace
from fractions import Fraction

from common.verifiers.math.guard import refusal
from common.verifiers.math.shape import (
    CLOCK,
    MOST_PARTS,
    RELATION,
    VARIABLE,
    Shape,
    is_words,
    shape,
    written,
)
from common.verifiers.math.text import squash, words
from common.verifiers.math.value import Refused, number, same_formula, same_number

FUNCTION = re.compile(r"\s*([a-zA-Z]\w*)\(([a-zA-Z])\)\s*")
INTEGER_PARAMETERS = {"k", "n", "m", "l"}


def same(gold: str, answer: str, tolerance: Fraction | None = None) -> bool | None:
    """Return whether `answer` equals `gold`; None where `answer` cannot be read at all."""
    if squash(gold) == squash(answer):
        return True
    left, right = shape(gold), shape(answer)
    verdict = _same(left, right, tolerance)
    if not verdict and bool(left.parts) != bool(right.parts) and "," in left.text + right.text:
        # "100,200" is read as one number, but as two where the other side is a list
        left, right = (
            one if one.parts else shape(one.text.replace(",", ", ")) for one in (left, right)
        )
        verdict = _same(left, right, tolerance) or verdict
    return verdict


def _same(gold: Shape, answer: Shape, tolerance: Fraction | None) -> bool | None:
    if gold.name and answer.name and squash(gold.name) != squash(answer.name):
        one, other = FUNCTION.fullmatch(gold.name), FUNCTION.fullmatch(answer.name)
        if one and other:
            answer = _renamed(answer, other[2], one[2])  # f(z) = z is f(x) = x
        elif VARIABLE.fullmatch(gold.name) and VARIABLE.fullmatch(answer.name):
            return False
    verdict = _same_kind(gold, answer, tolerance)
    if not verdict and RELATION.search(gold.text) and RELATION.search(answer.text):
        verdict = _same_value(gold, answer, tolerance)  # -x > 1: left to math-verify
    return verdict


def _same_kind(gold: Shape, answer: Shape, tolerance: Fraction | None) -> bool | None:
    if gold.kind == "many" or answer.kind == "many":
        return _same_many(gold, answer, tolerance)
    if gold.kind == "tuple" or answer.kind == "tuple":
        if gold.kind != answer.kind or len(gold.parts) != len(answer.parts):
            return False
        if gold.brackets == answer.brackets == "=":
            names = [squash(part.name) for part in answer.parts]
            if sorted(names) == sorted(squash(part.name) for part in gold.parts):
                order = [names.index(squash(part.name)) for part in gold.parts]
                answer = replace(answer, parts=tuple(answer.parts[at] for at in order))
        elif "||" in (both := {gold.brackets, answer.brackets}):  # a column or row of a matrix
            if not both <= {"||", "()", "[]"}:
                return False
        elif len(both) > 1 and "=" not in both:
            return False
        pairs = zip(gold.parts, answer.parts, strict=True)
        return all(_same(replace(g, name=""), replace(a, name=""), tolerance) for g, a in pairs)
    return _same_value(gold, answer, tolerance)


def _same_many(gold: Shape, answer: Shape, tolerance: Fraction | None) -> bool:
    golds, answers = (  # of a tuple its parts, while an interval or a value is one
        s.parts if s.kind == "many" or (s.brackets in ("()", "=") and not s.name) else (s,)
        for s in (gold, answer)
    )
    if gold.kind != answer.kind and "tuple" in (gold.kind, answer.kind):
        if "{}" in (gold.brackets, answer.brackets) and len(golds) > 1:
            return False  # a set is not a tuple
        if len(golds) != len(answers):
            return False
        if len(golds) > 1:  # (1, 2) for 1, 2: the brackets mean that the order counts
            pairs = zip(golds, answers, strict=True)
            return all(_same(replace(g, name=""), replace(a, name=""), tolerance) for g, a in pairs)
    rest = list(answers)
    if len(golds) < len(rest) <= MOST_PARTS:  # an answer may state a value twice
        rest = [*{written(a): a for a in rest}.values()]
    if len(golds) != len(rest) or len(golds) > MOST_PARTS:
        return False
    for part in golds:
        # the same text first: most parts are found without any algebra
        equal = (a for a in rest if written(a) == written(part))
        found = next(equal, None) or next((a for a in rest if _same(part, a, tolerance)), None)
        if found is None:
            return False
        rest.remove(found)
    return True


def _same_value(gold: Shape, answer: Shape, tolerance: Fraction | None) -> bool | None:
    left, right = gold.text, answer.text
    if "=" in left and answer.name and "=" not in right:
        right = f"{answer.name}={right}"  # 2x + y = 3 is y = 3 - 2x
    elif "=" in right and gold.name and "=" not in left:
        left = f"{gold.name}={left}"
    if squash(left) == squash(right):
        return True
    if None not in (times := (_seconds(left), _seconds(right))):
        return times[0] == times[1]
    if is_words(left) or is_words(right) or "⟦" in left + right:
        return bool(words(left)) and words(left) == words(right)
    if re.search(r"(?<!\d)\d+_", left + right):  # digits in a base: 204_5
        left, right = (squash(re.sub(r"_\{(\w+)\}", r"_\1", side)) for side in (left, right))
        return left == right
    verdict: bool | None = False
    for one, other in _readings(left, right):
        numbers = number(one), number(other)
        if all(numbers):
            verdict = same_number(*numbers, tolerance)
        elif reason := refusal(one) or refusal(other):
            raise Refused(reason)
        else:
            verdict = same_formula(one, other, tolerance)
        if verdict:
            return True
    return verdict


def _readings(gold: str, answer: str):
    """Yield both sides without degree and percent signs and with ratios as fractions, then with
    other meanings: degrees as radians (beside trigonometric functions only so) or percent as
    hundredths where only one side has the sign, and one integer parameter (k, n, m, l) renamed."""
    functions = re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", gold + answer)
    if "°" in gold + answer and functions:
        yield tuple(side.replace("°", r"\cdot\frac{\pi}{180}") for side in (gold, answer))
        return
    plain = [side.replace("°", "").replace("%", "").strip() for side in (gold, answer)]
    small = (value := number(plain[0])) and abs(value.value) < 1  # 0.5 is 50%, and not 0.5%
    if not small or "%" in gold or "%" not in answer:
        yield tuple(plain)
    forms = {"°": lambda text: rf"({text})\cdot\frac{{\pi}}{{180}}"}
    if "%" in gold + answer and all(map(number, plain)):
        forms["%"] = lambda text: rf"\frac{{{number(text).value}}}{{100}}"
    for sign, form in forms.items():
        if (sign in gold) != (sign in answer):
            pairs = zip((gold, answer), plain, strict=True)
            yield tuple(form(text) if sign in side else text for side, text in pairs)
    one, other = (
        INTEGER_PARAMETERS & set(re.findall(r"(?<![\\a-zA-Z])[a-z](?![a-zA-Z])|(?<=\\pi )[a-z]", s))
        for s in (gold, answer)
    )
    if len(one) == len(other) == 1 and one != other and "\\pi" in gold and "\\pi" in answer:
        yield plain[0], _letter(plain[1], other.pop(), one.pop())  # k \pi is n \pi


def _seconds(text: str) -> int | None:
    if (match := CLOCK.fullmatch(text.strip())) is None:
        return None
    hours, half = int(match[1]), (match[4] or "").lower()
    hours = hours % 12 + 12 * (half == "p") if half else hours
    return hours * 3600 + int(match[2]) * 60 + int(match[3] or 0)


def _renamed(one: Shape, old: str, new: str) -> Shape:
    parts = tuple(_renamed(part, old, new) for part in one.parts)
    return replace(one, text=_letter(one.text, old, new), parts=parts)


def _letter(text: str, old: str, new: str) -> str:
    return re.sub(rf"(\\[a-zA-Z]+)|{old}", lambda m: m[1] or new, text)
