"""Tasks with one right answer: the same function brings the model's answer and the stored one to a
normal form, and the two are compared."""

import re
from collections.abc import Callable
from typing import Any

from common.verifiers.synlogic.parse import Task, Unparsed, grid, last_line, said, stated, tidy

BOXED = "The answer is $\\boxed{{{}}}$."
COMMA = re.compile(r"[,，、]")
LETTERS = re.compile(r"[A-Za-z]{1,40}")
WHOLE = re.compile(r"(?<![0-9])[-−]?[0-9]{1,9}(?![0-9])")
PAIR = re.compile(r"\[\s{0,9}([0-9]{1,6})\s{0,9}[,，]\s{0,9}([0-9]{1,6})\s{0,9}\]")
BRACKETS = re.compile(r"[()\[\]{}<>]{2,2000}")
YES = {"yes": "yes", "true": "yes", "是": "yes", "no": "no", "false": "no", "否": "no"}
NO_ERROR = {"", "no error", "no errors", "no mistakes", "none", "无错误", "没有错误", "[]"}


def labels(text: str) -> str:
    """Return the option letters of "C and A" as "A,C"; longer words, like "none", in lower case."""
    found = LETTERS.findall(tidy(text))
    words = [word for word in found if word.lower() not in ("and", "or", "option", "options")]
    if not words:
        raise Unparsed("no option letter")
    if all(len(word) == 1 or word.isupper() for word in words):
        return ",".join(sorted(set("".join(words).upper())))
    return " ".join(words).lower()


def name(text: str) -> str:
    """Return one name or number without case, dressing and the leading zeros of numbers."""
    text = tidy(text).casefold()
    if not text:
        raise Unparsed("empty answer")
    return str(int(text)) if re.fullmatch(r"[0-9]{1,9}", text) else text


def names(text: str) -> str:
    return ",".join(sorted({name(part) for part in COMMA.split(tidy(text)) if part.strip()}))


def truths(text: str) -> str:
    """Return the list "yes,no" for "**Yes, no.**" or "是，否", in order."""
    words = [word.lower() for word in re.split(r"[,，、\s]+", tidy(text)) if word]
    if not words or not all(word in YES for word in words):
        raise Unparsed("something other than a list of yes and no")
    return ",".join(YES[word] for word in words)


def meeting(text: str) -> str:
    """Return a pair like "30,2": the last list of exactly two whole numbers."""
    pairs = PAIR.findall(text.replace("\\left", "").replace("\\right", ""))
    if not pairs:
        raise Unparsed("no list of two whole numbers")
    return ",".join(str(int(number)) for number in pairs[-1])


def owners(text: str) -> list[list[str]]:
    """Return the last list of (person, thing) pairs, sorted, without case; repeated pairs stay."""
    pairs = [[atom.casefold() for atom in pair] for pair in grid(text)]
    if not all(len(pair) == 2 for pair in pairs):
        raise Unparsed("the last list holds something other than pairs")
    return sorted(pairs)


def brackets(text: str) -> str:
    """Return the whole answer if it is only brackets, else its last run of two or more brackets."""
    answer = said(text)
    answer = text if answer is None else answer
    answer = answer.replace("\\", "").replace("langle", "<").replace("rangle", ">")
    whole = re.sub(r"[\s\"'`$*]", "", answer)
    if BRACKETS.fullmatch(whole):
        return whole
    runs = BRACKETS.findall(answer)
    if not runs:
        raise Unparsed("no brackets")
    return runs[-1]


def position(text: str) -> str:
    numbers = WHOLE.findall(tidy(text))
    if len(numbers) != 1:
        raise Unparsed("not one whole number")
    return str(int(numbers[0].replace("−", "-")))


def steps(text: str) -> str:
    """Return a set of step numbers, like "7,19"; "none" where the answer says there is no error."""
    text = tidy(text)
    numbers = {int(number.replace("−", "-")) for number in WHOLE.findall(text)}
    if not numbers and text.lower() not in NO_ERROR:
        raise Unparsed("no step number")
    return ",".join(map(str, sorted(numbers))) or "none"


def whole(text: str) -> str:
    return text


def _same(
    where: Callable[[str], str], normal: Callable[[str], Any], form: str, stored: str = ""
) -> Task:
    """Return a task whose answer is found in the text by `where` and compared in `normal` form."""

    def check(value: Any, answer: Any, puzzle: dict) -> str:
        return "" if value == normal(answer) else "differs from the stored answer"

    return Task(lambda text: normal(where(text)), check, form, (), stored, gold=True)


TASKS = {
    "boolean_expressions": _same(stated, labels, BOXED),
    "object_properties": _same(stated, name, BOXED),
    "space_reasoning": _same(stated, name, BOXED),
    "space_reasoning_tree": _same(stated, names, BOXED),
    "web_of_lies": _same(last_line, truths, BOXED),
    "time_sequence": _same(whole, meeting, BOXED),
    "goods_exchange": _same(whole, owners, "```python\n{}\n```", "owns_after"),
    "dyck_language": _same(whole, brackets, "{}", "full_sequence"),
    "dyck_language_errors": _same(last_line, position, "{}"),
    "dyck_language_reasoning_errors": _same(last_line, steps, "{}", "error_indices"),
}
