"""Cheap checks that refuse answers on which a computer algebra system could work for ever.

Nothing here is exact. The workers' deadline is the real limit; these checks only keep the obvious
cases from costing a worker each.
"""

import re

LONGEST = 1000  # characters of an answer, without spaces, that is parsed
DEEPEST = 16  # nested brackets of all kinds
LONGEST_NUMBER = 400  # digits
LARGEST_EXPONENT = 20_000  # also largest number in a factorial, a binomial, the limits of a sum
MOST_CELLS = 64
MOST_OPERATORS = 100

INTEGER = re.compile(r"\d+")
# The argument of a factorial, binomial, gamma or zeta function, where it is a group.
ARGUMENT = re.compile(
    r"\(([^()]*)\)\s*!|\{([^{}]*)\}\s*!|\\[dt]?binom\s*\{((?:[^{}]|\{[^{}]*\})*)\}"
    r"|\\(?:Gamma|zeta)\s*[({]((?:[^(){}]|\{[^{}]*\})*)[)}]"
)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]")


def refusal(text: str) -> str | None:
    """Return why `text` must not be parsed, or None where it may."""
    if CONTROL.search(text):
        return "control characters or unpaired surrogates"
    if len(text) > LONGEST:
        return f"longer than {LONGEST} characters"
    if _depth(text) > DEEPEST:
        return f"brackets nested deeper than {DEEPEST}"
    if any(len(number) > LONGEST_NUMBER for number in INTEGER.findall(text)):
        return f"a number of more than {LONGEST_NUMBER} digits"
    if text.count("&") + text.count("\\\\") > MOST_CELLS:
        return f"a matrix of more than {MOST_CELLS} cells"
    if len(re.findall(r"[-+/^_=]|\\[a-zA-Z]+", text)) > MOST_OPERATORS:
        return f"more than {MOST_OPERATORS} operators"
    if re.search(r"\d\s*[eE]\s*[-+]?\d{4,}", text) or _large_power(text):
        return f"an exponent that may exceed {LARGEST_EXPONENT}"
    if re.search(r"!\s*[!)}]*\s*!", text) or any(
        int(number) > LARGEST_EXPONENT
        for pattern in (r"(\d+)[)}\s]*!", r"\\[dt]?binom\s*\{?\s*(\d+)", r"\\(?:sum|prod)\D*(\d+)")
        for number in re.findall(pattern, text)
    ):
        return f"a factorial, binomial or sum beyond {LARGEST_EXPONENT}"
    if any(_large_inside("".join(filter(None, groups))) for groups in ARGUMENT.findall(text)):
        return "a factorial, binomial or gamma function of a large expression"
    if re.search(r"\\(?:sum|prod|int|lim)(?![a-z])", text) and any(
        int(number) > 1000 for number in INTEGER.findall(text)
    ):
        return "a sum, product or integral with limits beyond 1000"
    return None


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


def _large_inside(text: str) -> bool:
    return any(len(number) > 4 for number in INTEGER.findall(text)) or bool(
        re.search(r"\d\s*\)?\s*\^|!", text)
    )


def _large_power(text: str) -> bool:
    """Return whether some power in `text` may have an exponent beyond LARGEST_EXPONENT.

    The exponent of each ^ is a number, a letter or a group, with any power of it. The size of a
    group is estimated as the product of the numbers in it; towers of powers are included.
    """
    for at in [match.start() for match in re.finditer(r"\^", text)]:
        if _size(_operand(text, at + 1), 0) > LARGEST_EXPONENT:
            return True
    return False


def _operand(text: str, start: int) -> str:
    """Return the exponent that starts at `start`, with any power of it."""
    match = re.compile(r"\s*[-+]?").match(text, start)
    start = match.end()
    if text[start : start + 1] in ("{", "("):
        depth = 0
        for end in range(start, len(text)):
            depth += (text[end] in "{(") - (text[end] in "})")
            if depth == 0:
                return text[start : end + 1] + _tail(text, end + 1)
        return text[start:]
    number = re.compile(r"\d+|\\?[a-zA-Z]+|.", re.DOTALL).match(text, start)
    return number.group() + _tail(text, number.end()) if number else ""


def _tail(text: str, start: int) -> str:
    match = re.compile(r"\s*(\^|!)").match(text, start)
    if not match:
        return ""
    return "!" if match.group(1) == "!" else "^" + _operand(text, match.end())


def _size(exponent: str, level: int) -> float:
    """Return an upper estimate of the value of a numeric exponent."""
    if level > 6:
        return float("inf")
    if "!" in exponent:
        largest = max((int(n) for n in INTEGER.findall(exponent)), default=0)
        return float("inf") if largest > 7 else 5040.0
    caret = exponent.find("^")
    head = exponent if caret < 0 else exponent[:caret]
    size = 1.0
    for number in INTEGER.findall(head):
        size *= max(int(number), 1) if len(number) < 10 else float("inf")
    if caret < 0:
        return size
    power = _size(exponent[caret + 1 :], level + 1)
    if not INTEGER.search(head):
        return max(size, power)
    return float("inf") if power > 40 else max(size, 2.0) ** power
