"""Verifier of mathematical answers: math-verify's parser and comparison behind guards.

A response's final answer (extract.py) gets one spelling (text.py). Equal texts are equal; else its
parts (shape.py, equal.py) are compared: numbers exactly, formulas by parser and value (value.py),
unless refused (guard.py). Conventions and disagreements with other graders: docs/verifiers.md.
"""

import json
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Literal, NamedTuple

from common.errors import UserError, require
from common.types import Verdict
from common.verifiers.math import extract
from common.verifiers.math.equal import same
from common.verifiers.math.guard import refusal
from common.verifiers.math.shape import canonical, shape
from common.verifiers.math.text import clean, contradict, squash
from common.verifiers.math.value import Refused

PRELOAD = ("math_verify",)  # takes a second, once, in the workers' mother process
Convention = Literal["ours", "boxed", "last_number", "math_verify", "open_rs"]
CONVENTIONS = ("ours", "boxed", "last_number", "math_verify", "open_rs")


class Gold(NamedTuple):
    text: str
    cleaned: str
    tolerance: Fraction | None
    unit: str


def verify(
    response: str,
    reference: str,
    *,
    convention: Convention = "ours",
    opened: bool = False,
    drop_units: bool = False,
) -> Verdict:
    """Return the verdict on the final answer of `response` against `reference` (see `reference`).

    convention  ours         the last box, else "####", "answer is", ... (extract.py), compared as
                             mathematics
                boxed        the last box only, compared as mathematics
                last_number  the last number only, compared as mathematics
                math_verify  math_verify.parse on the whole response, the gold as \\boxed{gold}
                open_rs      the same, of LaTeX alone, as in the accuracy reward of Open-RS and of
                             CW-GRPO's author: a box, or a formula that is said to be the answer,
                             counts; a bare number does not
    drop_units  a unit other than the gold's is no fault, as in the graders of MATH's authors and of
                Qwen2.5-Math; a unit that is left out never is
    opened      the prompt ends in <think>: a response that never closes it has no answer

    unparsed: no final answer, or one that is refused (too long, nested, large) or that the parser
    rejects. `parsed` is the canonical text of the answer, or of the gold if the answer is correct.
    Raises UserError for a reference that is empty, too long or unreadable, or for an unknown
    convention, and for nothing else.
    """
    gold = _gold(reference)
    require(convention in CONVENTIONS, "convention", convention, f"use one of {CONVENTIONS}")
    if opened and "</think>" not in response:
        return Verdict("unparsed", 0.0, reason="the thought never ends")
    if convention in ("math_verify", "open_rs"):
        return _as_is(response, gold, latex_alone=convention == "open_rs")
    if convention == "last_number":
        number = extract.last_number(extract.after_thought(response))
        answers = [number] if number else []
    elif convention == "boxed":
        answers = extract.last_boxes(extract.after_thought(response)) or []
    else:
        answers = extract.final_answers(response)
    if not answers:
        return Verdict("unparsed", 0.0, reason="no final answer")
    return _judged(reference, tuple(answer.strip() for answer in answers), drop_units)


def reference(row: dict) -> str:
    """Return the reference of a data row: its `gold`, else `answer`. It is JSON with "gold" where
    the row also gives a "tolerance" (`error` of OlympiadBench, `float_rounding` of Math-Verify's
    cases) or a "unit". Several `final_answer` entries, joined by commas, replace the gold. Raises
    UserError where the gold is missing, empty or too long."""
    field = "gold" if "gold" in row else "answer"
    gold = row.get(field)
    if isinstance(gold, int | float) and not isinstance(gold, bool) and isfinite(gold):
        gold = str(gold)
    require(
        isinstance(gold, str) and gold.strip() != "",
        f"row {row.get('id')}: {field}",
        repr(gold)[:80],
        "a gold must be a text or a number: drop the row",
    )
    boxed = "\\box" in gold or "\\fbox" in gold  # only the box of a whole solution is compared
    require(
        boxed or len(gold) <= extract.LONGEST,
        f"row {row.get('id')}: {field}",
        gold[:40],
        f"has {len(gold)} characters, at most {extract.LONGEST} are compared: drop the row",
    )
    finals = row.get("final_answer") or []
    more = {"gold": ", ".join(finals) if len(finals) > 1 else gold}
    places = (row.get("config") or {}).get("float_rounding", 6)
    if row.get("error"):
        more["tolerance"] = str(row["error"])
    elif places < 5:  # 5 or 6 places are the usual precision
        more["tolerance"] = f"1e-{places}"
    if row.get("unit"):
        more["unit"] = str(row["unit"])
    return json.dumps(more, sort_keys=True) if len(more) > 1 else more["gold"]


def response(row: dict) -> str:
    """Return the response of a case row, with a bare answer (by `kind` or `answer_format`) in a
    box; a `unit_test` may hold either, since verify reads both."""
    text = row["response"]
    if row.get("kind") == "answer_pair" or row.get("answer_format") == "bare answer":
        return f"\\boxed{{{extract.balanced(text)}}}"
    return text


def example(reference: str) -> str | None:
    gold = _gold(reference)
    return f"The answer is $\\boxed{{{extract.balanced(gold.text)}}}$."


@lru_cache(maxsize=4096)
def _gold(reference: str) -> Gold:
    fields, tolerance = {"gold": reference}, None
    if reference.lstrip().startswith('{"'):
        try:
            fields = json.loads(reference)
            tolerance = Fraction(fields["tolerance"]) if "tolerance" in fields else None
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"reference={reference[:80]}: cannot be read ({error})") from None
    text = fields.get("gold")
    require(
        isinstance(text, str) and text.strip() != "",
        "reference",
        repr(reference)[:80],
        "an empty gold must never be scored",
    )
    text = text.rpartition("####")[2].strip() or text  # a worked solution of GSM8K
    boxes = extract.last_boxes(text) if "\\box" in text or "\\fbox" in text else None
    inside = ", ".join(boxes) if boxes else text
    long = f"its gold has {len(inside)} characters, at most {extract.LONGEST} are compared"
    require(len(inside) <= extract.LONGEST, "reference", inside[:40], f"{long}; drop the row")
    inside = inside if boxes else extract.balanced(text)
    return Gold(inside, clean(inside), tolerance, clean(fields.get("unit", "")))


@lru_cache(maxsize=16384)
def _judged(reference: str, answers: tuple[str, ...], drop_units: bool) -> Verdict:
    """Return the verdict on an extracted answer. Several boxes are one answer where the gold has as
    many parts, else the last counts."""
    gold = _gold(reference)
    answer = clean(answers[-1]) if len(answers[-1]) <= extract.LONGEST else answers[-1]
    if squash(answer) == squash(gold.cleaned):
        return Verdict("correct", 1.0, canonical(gold.cleaned))
    if reason := refusal(answer):
        return Verdict("unparsed", 0.0, reason=reason)
    try:
        if len(answers) > 1 and len(parts := shape(gold.cleaned).parts) > 1:
            joined = clean(", ".join(answers[-len(parts) :]))
            if len(answers) == len(parts) and not refusal(joined):
                answer = joined
        if gold.unit:
            answer = squash(answer).removesuffix(squash(gold.unit))
        verdict = not contradict(gold.cleaned, answer, drop_units)
        verdict = verdict and same(gold.cleaned, answer, gold.tolerance)
    except Refused as refused:
        return Verdict("unparsed" if str(refused) else "wrong", 0.0, reason=str(refused))
    except Exception as error:  # sympy raises many kinds of errors, of any length
        return Verdict("unparsed", 0.0, reason=f"{type(error).__name__} while comparing")
    if verdict is None:
        return Verdict("unparsed", 0.0, canonical(answer), "the parser rejects the answer")
    if verdict:
        return Verdict("correct", 1.0, canonical(gold.cleaned))
    return Verdict("wrong", 0.0, canonical(answer))


def _as_is(response: str, gold: Gold, *, latex_alone: bool) -> Verdict:
    import math_verify
    from latex2sympy2_extended import NormalizationConfig

    golds = math_verify.parse(f"\\boxed{{{gold.text}}}", parsing_timeout=None)
    options = {}
    if latex_alone:  # boxes first, malformed operators stay
        spelling = NormalizationConfig(units=True, boxed="all", malformed_operators=False)
        reads = math_verify.LatexExtractionConfig(
            normalization_config=spelling, boxed_match_priority=0, try_extract_without_anchor=False
        )
        options = {"extraction_config": [reads], "extraction_mode": "first_match"}
    answers = math_verify.parse(response, parsing_timeout=None, **options)
    if not answers:
        return Verdict("unparsed", 0.0, reason="math_verify.parse found nothing")
    right = math_verify.verify(golds, answers, timeout_seconds=None)
    text = next((answer for answer in answers if isinstance(answer, str)), "")
    return Verdict("correct" if right else "wrong", float(right), text[:200])
