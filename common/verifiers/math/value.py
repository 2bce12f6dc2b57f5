"""Equality of single values: numbers exactly, formulas by math-verify's parser and evaluation.

math-verify is imported on first need (1 s); no parsed object is ever turned into text, which can
take for ever.
"""

import logging
import math
import re
import zlib
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
POWER_OF_TEN = r"(?:[eE](?P<e>[-+]?\d{1,3})|\\cdot10\^(?:(?P<p>\d)|\{(?P<q>[-+]?\d{1,3})\}))"
PLAIN = re.compile(rf"(?P<sign>[-+]?)(?P<digits>{DECIMAL}){POWER_OF_TEN}?")
RATIO = re.compile(
    rf"(?P<sign>[-+]?)(?:\\frac\{{(?P<a>[-+]?{DECIMAL})\}}\{{(?P<b>[-+]?{DECIMAL})\}}"
    rf"|\(?(?P<c>{DECIMAL})\)?/\(?(?P<d>{DECIMAL})\)?)"
)
REPEATING = re.compile(
    r"(?P<sign>[-+]?)(?P<n>\d*)\.(?P<a>\d*)\\(?:overline|bar|dot)\{?(?P<b>\d+)\}?"
)
THOUSANDS = re.compile(r"([-+]?)(\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+)((?:\.\d+)?)")
FLOAT_DIGITS = 6  # a decimal with fewer significant digits never stands for an exact value
NAMES = re.compile(r"\\[a-zA-Z]+|[A-Z]")
LARGEST_EXPONENT = 20_000  # also of the argument of a factorial
MOST_BITS = 400_000
MOST_DIGITS = 40_000
MOST_TERMS = 1000
GROWING = {"factorial", "factorial2", "binomial", "gamma", "exp", "sinh", "cosh", "tanh", "coth"}


class Refused(Exception):
    """Raised for an answer that must not be computed; the text says why."""


class Number(NamedTuple):
    """A number. If it is written as a decimal or with a power of ten, `digits` counts its
    significant digits, and `step` is one unit of the last one."""

    value: Fraction
    digits: int | None = None
    step: Fraction | None = None


def number(text: str) -> Number | None:
    r"""Return the number that `text` (cleaned) writes out: 1,000.5, 4.5e33, 2\cdot 10^5,
    \frac{1}{3}, 1/3, 0.\overline{3}, 1\frac{1}{2}; None for anything else or over 400
    characters."""
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
    elif match := REPEATING.fullmatch(text):
        places, period = len(match["a"]), len(match["b"])
        value = Fraction(f"{match['n'] or 0}.{match['a'] or 0}")
        value += Fraction(int(match["b"]), (10**period - 1) * 10**places)
    else:
        return None
    return None if value is None else Number(-value if match["sign"] == "-" else value)


def same_number(gold: Number, answer: Number, tolerance: Fraction | None = None) -> bool:
    r"""Return whether two numbers are equal: exactly, within `tolerance`, or up to rounding.

    A decimal answer equals an exact gold if it has at least 6 significant digits and the gold
    rounds to it (\frac13: 0.333333 but not 0.3333). A decimal gold with at least 2 places and 3
    digits equals every exact answer that is rounded or cut to it. Two decimals are equal up to the
    rounding of the coarser one if both have at least 6 digits.
    """
    difference = abs(gold.value - answer.value)
    if difference == 0 or (tolerance is not None and difference <= tolerance):
        return True
    if answer.step:
        digits = min(answer.digits, gold.digits or answer.digits)
        return digits >= FLOAT_DIGITS and 2 * difference <= max(answer.step, gold.step or 0)
    if gold.step and gold.step <= Fraction(1, 100) and gold.digits >= 3:
        cut = abs(gold.value) <= abs(answer.value) < abs(gold.value) + gold.step
        return 2 * difference <= gold.step or (cut and gold.value * answer.value > 0)
    return False


@lru_cache(maxsize=4096)
def parsed(text: str):
    """Return what math-verify's LaTeX parser makes of `text` (cleaned, not refused), or None. The
    parser puts capitals in lower case, so they get other names here: R is not r. Its removal of
    units is not used: it drops letters (4t, 3d)."""
    from math_verify.parser import parse_latex_cached

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of timeouts that are off
    text = NAMES.sub(_kept, text.replace("...", r"\text{dots}"))
    try:
        return parse_latex_cached(text)
    except Exception:  # the parser raises whatever its grammar meets
        return None


def same_formula(gold: str, answer: str, tolerance: Fraction | None = None) -> bool | None:
    """Return whether two formulas (cleaned, not refused) are equal; None if `answer` is not parsed.

    Real or complex values are compared at fixed points, exactly (see `_identical`) or, where a
    decimal is involved, to 9 digits; equations up to a factor, matrices by element. What has no
    value (sets, relations, functions without a definition) is left to math_verify.verify.
    """
    from math_verify import verify
    from sympy import Basic, Eq, Expr, MatrixBase

    a, b = parsed(gold), parsed(answer)
    if b is None:
        return None
    if not all(isinstance(side, Basic | MatrixBase) for side in (a, b)):
        return False
    for side in (b, a):
        for part in side if isinstance(side, MatrixBase) else (side,):
            bits(part)
    decimal = "." in gold.replace("...", "") or "." in answer.replace("...", "")
    if isinstance(a, MatrixBase) and isinstance(b, MatrixBase):
        return a.shape == b.shape and all(
            _same_values(x, y, decimal) is True for x, y in zip(a, b, strict=True)
        )
    if isinstance(a, Eq) and isinstance(b, Eq):
        verdict = _proportional(a.lhs - a.rhs, b.lhs - b.rhs, decimal)
    elif isinstance(a, Expr) and isinstance(b, Expr):
        verdict = _same_constants(gold, answer, a, b, tolerance)
        if verdict is None:
            verdict = _same_values(a, b, decimal)
    else:
        verdict = False if isinstance(a, Eq) else None  # x + y = 8 is not 8
    return verify(a, b, timeout_seconds=None) if verdict is None else verdict


def _same_constants(gold: str, answer: str, a, b, tolerance: Fraction | None) -> bool | None:
    """Return True if both sides are real constants that are equal by the rule of `same_number`;
    None if the formulas have to be compared, or there is neither a tolerance nor a decimal."""
    numbers = [number(gold), number(answer)]
    if tolerance is None and not any(one and one.step for one in numbers):
        return None
    for at, formula in enumerate((a, b)):
        if numbers[at] is None:
            if formula.free_symbols or (value := _value(formula, 0)) is None or value.imaginary:
                return None
            numbers[at] = Number(value.real)
    return same_number(numbers[0], numbers[1], tolerance) or None


def _same_values(left, right, decimal: bool) -> bool | None:
    """Return whether two formulas have equal values at the points where both are real; complex
    values count only where no point is real. None where no point gives both a value."""
    real: list[bool] = []
    complex_: list[bool] = []
    for point in range(5):
        x, y = _value(left, point), _value(right, point)
        if x is not None and y is not None:
            verdicts = complex_ if x.imaginary or y.imaginary else real
            verdicts.append(_equal(x, y, decimal))
        if False in real:
            return False
    return all(real or complex_) if real or complex_ else None


def _proportional(left, right, decimal: bool) -> bool | None:
    """Return whether left = factor * right with the same factor at all points, so that both vanish
    together; None where no point gives a factor."""
    if {symbol.name for symbol in left.free_symbols} != {s.name for s in right.free_symbols}:
        return False
    values = [(_value(left, point), _value(right, point)) for point in range(5)]
    values = [(x, y) for x, y in values if x and y and y.real and not (x.imaginary or y.imaginary)]
    if not values or not values[0][0].real:
        return False if values else None
    (x, y), *rest = values

    def times(one: Value, other: Value) -> Value:
        return Value(one.formula * other.formula, one.real * other.real, Fraction(0))

    return all(_equal(times(x, v), times(y, u), decimal) for u, v in rest)


class Value(NamedTuple):
    """A constant formula, and the two parts of its value to 50 digits."""

    formula: Any
    real: Fraction
    imaginary: Fraction


def _equal(x: Value, y: Value, decimal: bool) -> bool:
    size = max(map(abs, (*x[1:], *y[1:])))
    distance = max(abs(x.real - y.real), abs(x.imaginary - y.imaginary))
    near = Fraction(1, 10 ** (9 if decimal else 40))
    if distance > size * near and (decimal or size > near):  # a difference may be written out: 0
        return False
    return decimal or _identical(x.formula, y.formula)


def _identical(x, y) -> bool:
    """Return whether two constants that agree in 40 digits are equal. For algebraic numbers this is
    exact: a difference other than 0 is at least 1 / (u^(degree - 1) l), the bound of Burnikel,
    Funke, Mehlhorn, Schirra and Schmitt (2001). Others must agree in 300 digits beyond the size of
    the numbers in them. What takes more than MOST_DIGITS digits is not equal."""
    if (difference := x - y).is_Rational:
        return not difference
    roots: set = set()
    top, bottom = bits(difference, roots)
    degree = math.prod(index or 1 for _, index in roots)
    needed = max(top, 0) * degree + bottom + (1000 if any(not index for _, index in roots) else 0)
    digits = int((needed + bits(x)[0]) * 0.302) + 20
    if digits > MOST_DIGITS:
        return False
    a, b = (side.evalf(digits, maxn=2 * digits) for side in (x, y))
    return bool(abs(a - b) * 2 ** int(needed) < 1)


def bits(node, roots: set | None = None, bound: dict | None = None) -> tuple[float, float]:
    """Return the logarithms of the bounds u and l of a formula (`_identical`), before anything in
    it is computed, and add its roots (base, index) to `roots`, with index 0 for what is not
    algebraic. A name stands for a point of `_value`, or is `bound` by a sum. Raises Refused for
    what is too large or may take too long to compute."""
    from sympy import Add, Integral, Mul, Pow, Product, Sum, factorial

    roots, bound = set() if roots is None else roots, bound or {}
    if node.is_Rational:
        top, bottom = float(abs(node.p).bit_length()), float(node.q.bit_length() - (node.q == 1))
    elif node.is_Symbol or not node.args:
        if node.is_number:
            roots.add((node, 2 if node.is_algebraic else 0))
        top = bottom = bound.get(node, 1.0 if node.is_number else bound.get(None, 14.0))
    elif isinstance(node, Sum | Product | Integral):
        top, bottom = _repeated(node, roots, bound)
    else:
        parts = [bits(part, roots, bound) for part in node.args]
        top, bottom = sum(part[0] for part in parts), sum(part[1] for part in parts)
        if isinstance(node, Add):
            top = max(part[0] - part[1] for part in parts) + bottom + len(parts)
        elif isinstance(node, Pow):
            top, bottom = _power(node, parts[0], roots, bound)
        elif node.func.__name__ in GROWING:  # factorials, powers of e: as large as 2 ^ argument
            size = max(_size(part, roots, bound) for part in node.args)
            if size > LARGEST_EXPONENT:
                raise Refused(f"an argument of {node.func.__name__} beyond {LARGEST_EXPONENT}")
            top = 2 * size * (math.log2(size + 2) if isinstance(node, factorial) else 1)
            bottom = 0 if node.is_integer else top
            if not node.is_integer:
                roots.add((node, 0))
        elif not isinstance(node, Mul) and node.is_number and not node.is_algebraic:
            roots.add((node, 0))
            top = bottom = top + bottom + 64
    if top + bottom > MOST_BITS:
        raise Refused(f"a number of more than {MOST_BITS} bits")
    return top, bottom


def _power(node, base: tuple, roots: set, bound: dict) -> tuple[float, float]:
    top, bottom = base
    size = _size(node.exp, roots, bound)
    if size > LARGEST_EXPONENT:
        raise Refused(f"an exponent that may exceed {LARGEST_EXPONENT}")
    if node.exp.is_Rational:
        if node.exp.q > 1:
            roots.add((node.base, node.exp.q))
        if node.exp.p < 0:
            top, bottom = bottom, top
    else:
        top = bottom = max(top, bottom)
        if not node.exp.is_integer:
            roots.add((node, 0))
    return top * size, bottom * size


def _size(node, roots: set, bound: dict) -> float:
    """Return a bound of the absolute value of an exponent or argument."""
    top, _ = bits(node, roots, {**bound, None: 1.0})
    if node.is_number and node.is_real:
        return float(min(abs(node.evalf(15)), 10**9))
    return 2 ** min(top, 30)


def _repeated(node, roots: set, bound: dict) -> tuple[float, float]:
    """Return `bits` of a sum, product or integral of one variable: integrals of polynomials, finite
    sums of at most MOST_TERMS terms, infinite sums (of nothing that is infinite again)."""
    from sympy import Integral, Product, Sum, oo

    (variable, *limits), *others = node.limits
    if len(limits) != 2 or others or node.function.atoms(Integral) or node.function.has(oo):
        raise Refused("a nested or indefinite sum, product or integral")
    sizes = [_size(limit, roots, bound) for limit in limits if limit is not oo]
    infinite, term = oo in limits, node.function
    easy = term.is_polynomial if isinstance(node, Integral) else term.is_hypergeometric
    if (infinite and not isinstance(node, Sum)) or max(sizes, default=0) > MOST_TERMS:
        raise Refused(f"a product or integral to infinity, or limits beyond {MOST_TERMS}")
    if infinite or isinstance(node, Integral):
        if not easy(variable):
            raise Refused("an integral of no polynomial, or an infinite sum of no simple terms")
        roots.add((node, 0))
    terms = 1 if infinite else max(sizes)
    top, bottom = bits(term, roots, {**bound, variable: math.log2(max(sizes) + 2)})
    return (terms if isinstance(node, Product) else 1) * top + terms * bottom + 10, terms * bottom


def _value(formula, point: int) -> Value | None:
    """Return the value of `formula` at one of five fixed points; None where it has none. Each name
    has another value, positive at points 0 to 3 and negative at 4; i is the imaginary unit."""
    from sympy import I, Rational

    points = {}
    for symbol in formula.free_symbols:
        hashed = zlib.crc32(f"{symbol.name}{point}".encode())
        size = Rational(hashed % 9973 + 57, (9001, 9007, 2003, 499, 4999)[point])
        points[symbol] = I if symbol.name == "i" else -size if point == 4 else size
    try:
        exact = formula.subs(points).doit()
        if exact.is_Rational:
            return Value(exact, Fraction(exact.p, exact.q), Fraction(0))
        real, imaginary = exact.evalf(50).as_real_imag()
        return Value(exact, _fraction(real), _fraction(imaginary))
    except Exception:  # no value: sympy raises many kinds of errors, or the result is not a number
        return None


def _fraction(part) -> Fraction:
    if part.is_zero:
        return Fraction(0)
    sign, mantissa, exponent, _ = part.n(50)._mpf_  # exact, and quick
    if not mantissa or abs(exponent) > 200_000:
        raise ValueError("no finite number")
    value = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -value if sign else value


def _kept(match: re.Match) -> str:
    name = match.group().removeprefix("\\")
    return rf"\text{{{name.lower()}capital}}" if name[0].isupper() else match.group()
