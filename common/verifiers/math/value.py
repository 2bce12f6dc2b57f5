"""Equality of single values: numbers exactly, formulas by math-verify's parser and evaluation.

math-verify is imported on first need (1 s); no parsed object is ever turned into text, which can
take for ever.
"""

import logging
import re
import zlib
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
POWER_OF_TEN = r"(?:[eE](?P<e>[-+]?\d{1,3})|\\cdot10\^(?:(?P<p>\d)|\{(?P<q>[-+]?\d{1,3})\}))"
PLAIN = re.compile(rf"(?P<sign>[-+]?)(?P<digits>{DECIMAL}){POWER_OF_TEN}?")
RATIO = re.compile(
    rf"(?P<sign>[-+]?)(?:\\frac\{{(?P<a>[-+]?{DECIMAL})\}}\{{(?P<b>[-+]?{DECIMAL})\}}"
    rf"|\(?(?P<c>{DECIMAL})\)?/\(?(?P<d>{DECIMAL})\)?)"
)
TEN = re.compile(r"(?P<sign>[-+]?)10\^(?:(?P<p>\d)|\{(?P<q>[-+]?\d{1,3})\})")
MIXED = re.compile(r"(?P<sign>[-+]?)\((?P<n>\d+)\+\\frac\{(?P<a>\d+)\}\{(?P<b>\d+)\}\)")
REPEATING = re.compile(r"(?P<sign>[-+]?)(?P<n>\d*)\.(?P<a>\d*)\\(?:overline|bar)\{?(?P<b>\d+)\}?")
THOUSANDS = re.compile(r"([-+]?)(\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+)((?:\.\d+)?)")
FLOAT_DIGITS = 6  # a decimal with fewer significant digits never stands for an exact value
NAMES = re.compile(r"\\[a-zA-Z]+|[A-Z]")


class Number(NamedTuple):
    """A number. If it is written as a decimal or with a power of ten, `digits` counts its
    significant digits, and `step` is one unit of the last one."""

    value: Fraction
    digits: int | None = None
    step: Fraction | None = None


def number(text: str) -> Number | None:
    """Return the number that `text` (cleaned) writes out: 1,000.5, 4.5e33, 2\\cdot 10^5,
    \\frac{1}{3}, 1/3, 0.\\overline{3}, 1\\frac{1}{2}; None where it is anything else, or has over
    400 characters."""
    text = text.strip()
    if len(text) > 400:
        return None
    if match := THOUSANDS.fullmatch(text):
        text = match[1] + match[2].replace(",", "").replace(" ", "") + match[3]
    elif re.search(r"\d\s+\.?\d", text):
        return None
    text = text.replace(" ", "")
    while len(text) > 2 and text[0] + text[-1] in ("{}", "()") and text[1:-1].isalnum():
        text = text[1:-1]
    if match := PLAIN.fullmatch(text):
        digits, exponent = match["digits"], int(match["e"] or match["p"] or match["q"] or 0)
        value, step = Fraction(digits) * Fraction(10) ** exponent, None
        if "." in digits.rstrip(".") or match["e"] or match["p"] or match["q"]:
            places = len(digits.partition(".")[2])
            step = Fraction(10) ** (exponent - places)
        significant = len(digits.replace(".", "").lstrip("0"))
        sign = -1 if match["sign"] == "-" else 1
        return Number(sign * value, significant if step else None, step)
    if match := RATIO.fullmatch(text):
        top, bottom = Fraction(match["a"] or match["c"]), Fraction(match["b"] or match["d"])
        value = top / bottom if bottom else None
    elif match := TEN.fullmatch(text):
        value = Fraction(10) ** int(match["p"] or match["q"])
    elif match := MIXED.fullmatch(text):
        value = int(match["n"]) + Fraction(int(match["a"]), int(match["b"]))
    elif match := REPEATING.fullmatch(text):
        places, period = len(match["a"]), len(match["b"])
        value = Fraction(f"{match['n'] or 0}.{match['a'] or 0}")
        value += Fraction(int(match["b"]), (10**period - 1) * 10**places)
    else:
        return None
    return None if value is None else Number(-value if match["sign"] == "-" else value)


def same_number(gold: Number, answer: Number, tolerance: Fraction | None = None) -> bool:
    """Return whether two numbers are equal: exactly, within `tolerance`, or up to rounding.

    A decimal answer equals an exact gold if it has at least 6 significant digits and the gold
    rounds to it (\\frac13: 0.333333 but not 0.3333). A decimal gold with at least 2 places and 3
    digits equals every exact answer (no decimal) that is rounded or cut to it. Two decimals are
    equal up to the rounding of the coarser one if both have at least 6 digits.
    """
    difference = abs(gold.value - answer.value)
    if difference == 0 or (tolerance is not None and difference <= tolerance):
        return True
    if answer.step and gold.step:
        return min(gold.digits, answer.digits) >= FLOAT_DIGITS and (
            2 * difference <= max(gold.step, answer.step)
        )
    if answer.step:
        return answer.digits >= FLOAT_DIGITS and 2 * difference <= answer.step
    if gold.step and gold.step <= Fraction(1, 100) and gold.digits >= 3:
        cut = abs(gold.value) <= abs(answer.value) < abs(gold.value) + gold.step
        return 2 * difference <= gold.step or (cut and gold.value * answer.value > 0)
    return False


@lru_cache(maxsize=4096)
def parsed(text: str):
    """Return what math-verify's LaTeX parser makes of `text` (cleaned, not refused), or None.

    The parser puts capitals in lower case; here they become names of their own, so that R is not r.
    Its removal of units is not used: it drops letters (4t, 3d)."""
    from math_verify.parser import parse_latex_cached

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of timeouts that are off
    text = NAMES.sub(_kept, text.replace("...", r"\text{dots}"))
    try:
        return parse_latex_cached(text)
    except Exception:  # the parser raises whatever its grammar meets
        return None


def same_formula(gold: str, answer: str, tolerance: Fraction | None = None) -> bool | None:
    """Return whether two formulas (cleaned, not refused) are equal; None if `answer` is not parsed.

    Real or complex values are compared at fixed points, relative to their size, to 40 digits (9
    where a decimal is involved); equations up to a factor, matrices by element. What has no value
    (sets, relations, functions without a definition) is left to math_verify.verify.
    """
    from math_verify import verify
    from sympy import Basic, Eq, Expr, MatrixBase

    a, b = parsed(gold), parsed(answer)
    if b is None:
        return None
    if not all(isinstance(side, Basic | MatrixBase) for side in (a, b)):
        return False
    decimal = "." in gold.replace("...", "") or "." in answer.replace("...", "")
    if isinstance(a, MatrixBase) and isinstance(b, MatrixBase):
        return a.shape == b.shape and all(
            _same_values([x], [y], decimal) is True for x, y in zip(a, b, strict=True)
        )
    if isinstance(a, Eq) and isinstance(b, Eq):
        verdict = _proportional(a.lhs - a.rhs, b.lhs - b.rhs, decimal)
    elif isinstance(a, Expr) and isinstance(b, Expr):
        verdict = _same_constants(gold, answer, a, b, tolerance)
        if verdict is None:
            verdict = _same_values([a], [b], decimal)
    else:
        verdict = None
    return verify(a, b, timeout_seconds=None) if verdict is None else verdict


def _same_constants(gold: str, answer: str, a, b, tolerance: Fraction | None) -> bool | None:
    """Return True if both sides are real constants (written-out numbers or formulas) that are equal
    by the rule of `same_number`, and None otherwise: the formulas then have to be compared. Also
    return None where there is neither a tolerance nor a decimal."""
    numbers = [number(gold), number(answer)]
    if tolerance is None and not any(one and one.step for one in numbers):
        return None
    for at, formula in enumerate((a, b)):
        if numbers[at] is None:
            if formula.free_symbols or (value := _value(formula, 0)) is None or value[1] != 0:
                return None
            numbers[at] = Number(value[0])
    return same_number(numbers[0], numbers[1], tolerance) or None


def _same_values(left: list, right: list, decimal: bool) -> bool | None:
    """Return whether the formulas of both lists have equal values at the points where all are real;
    complex values count only where no point is real. Return None where no point gives all of them a
    value."""
    complex_verdicts, seen_real = [], False
    for point in range(5):
        pairs = [(_value(x, point), _value(y, point)) for x, y in zip(left, right, strict=True)]
        if any(x is None or y is None for x, y in pairs):
            continue
        near = all(_near(x, y, decimal) for x, y in pairs)
        if any(x[1] or y[1] for x, y in pairs):
            complex_verdicts.append(near)
        elif not near:
            return False
        else:
            seen_real = True
    if seen_real or not complex_verdicts:
        return True if seen_real else None
    return all(complex_verdicts)


def _proportional(left, right, decimal: bool) -> bool | None:
    """Return whether left = factor * right with one factor at all points, so that both vanish
    together; None where no point gives a factor."""
    if {symbol.name for symbol in left.free_symbols} != {s.name for s in right.free_symbols}:
        return False
    factors = []
    for point in range(5):
        x, y = _value(left, point), _value(right, point)
        if x and y and x[1] == y[1] == 0 and y[0] != 0:
            factors.append(x[0] / y[0])
    if not factors:
        return None
    return factors[0] != 0 and all(_near((f, 0), (factors[0], 0), decimal) for f in factors)


def _near(x: tuple, y: tuple, decimal: bool) -> bool:
    size = max(abs(part) for part in (*x, *y))
    distance = max(abs(x[0] - y[0]), abs(x[1] - y[1]))
    return distance <= size * Fraction(1, 10 ** (9 if decimal else 40))


def _value(formula, point: int) -> tuple[Fraction, Fraction] | None:
    """Return the real and imaginary part of `formula` to 50 digits at one of five fixed points;
    None where it has no value. Each name has a value of its own, positive at points 0 to 3 and
    negative at 4; i is the imaginary unit."""
    from sympy import I, Rational

    points = {}
    for symbol in formula.free_symbols:
        hashed = zlib.crc32(f"{symbol.name}{point}".encode())
        size = Rational(hashed % 9973 + 57, (9001, 9007, 2003, 499, 4999)[point])
        points[symbol] = I if symbol.name == "i" else -size if point == 4 else size
    try:
        value = formula.subs(points).doit().evalf(50)
        real, imaginary = value.as_real_imag()
        return _fraction(real), _fraction(imaginary)
    except Exception:  # no value: sympy raises many kinds of errors, or the result is not a number
        return None


def _fraction(part) -> Fraction:
    if part.is_zero:
        return Fraction(0)
    rational = part.n(50)._mpf_  # sign, mantissa, exponent of two, bits: exact, and quick
    sign, mantissa, exponent, _ = rational
    if not mantissa or abs(exponent) > 200_000:
        raise ValueError("no finite number")
    value = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -value if sign else value


def _kept(match: re.Match) -> str:
    name = match.group()
    if name[0] != "\\":
        return rf"\text{{{name.lower()}capital}}"
    return rf"\text{{{name[1:].lower()}capital}}" if name[1].isupper() else name
