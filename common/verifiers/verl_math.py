"""The grader of verl's reward for MATH (verl.utils.reward_score.math_reward of 0.9.1): strings,
no mathematics.

The text in the response's last box and the gold are rewritten by the rules of MATH's authors and
must then be the same: 0.5 is \\frac{1}{2}, but 0.75 is not \\frac{3}{4}.
"""

import re

from common.errors import require
from common.types import Verdict
from common.verifiers.math import example, reference

__all__ = ["example", "reference", "verify"]

WHOLE = r"(?:-?[1-9][0-9]*|0)"
REWRITTEN = (
    *((old, "") for old in ("\n", r"\!")),
    ("\\\\", "\\"),
    *((old, "frac") for old in ("tfrac", "dfrac")),
    *((old, "") for old in (r"\left", r"\right", r"^{\circ}", r"^\circ", r"\$")),
)


def verify(response: str, reference: str) -> Verdict:
    """Return the verdict on what `response` has in its last box. The `reference` is a text, as
    math's gives it. unparsed: no \\boxed{...}, or one that never closes.
    Raises UserError for a reference that is empty or JSON, which no text can equal."""
    empty = not reference.strip() or reference.startswith('{"')
    require(not empty, "reference", reference[:80], "verl compares with a text alone")
    answer = _boxed(response)
    if answer is None:
        return Verdict("unparsed", 0.0, reason="no closed box")
    try:
        text, gold = _plain(answer), _plain(reference)
    except (IndexError, ValueError):  # a rule meets the end of the text: verl compares as it is
        text, gold = answer, reference
    return Verdict("correct" if text == gold else "wrong", float(text == gold), text[:200])


def _boxed(text: str) -> str | None:
    if r"\boxed " in text:
        return text.rpartition(r"\boxed ")[2].partition("$")[0]
    depth, text = 0, text.rpartition(r"\boxed")[2] if r"\boxed" in text else ""
    for at, character in enumerate(text if text.startswith("{") else ""):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[1:at]
    return None


def _plain(text: str) -> str:
    for old, new in REWRITTEN:
        text = text.replace(old, new)
    if r"\text{ " in text:
        text, _ = text.split(r"\text{ ")  # a unit
    for old, new in ((r"\\%", ""), (r"\%", ""), (" .", " 0."), ("{.", "{0.")):
        text = text.replace(old, new)
    text = f"0{text}" if text.startswith(".") else text
    name, _, value = text.partition("=")
    text = value if len(name) <= 2 and text.count("=") == 1 else text
    text, *roots = text.split(r"\sqrt")
    text += "".join(rf"\sqrt{{{r[0]}}}{r[1:]}" if r[0] != "{" else rf"\sqrt{r}" for r in roots)
    text = _fractions(text.replace(" ", ""))
    text = r"\frac{1}{2}" if text == "0.5" else text
    return re.sub(rf"\A({WHOLE})/({WHOLE})\Z", r"\\frac{\1}{\2}", text)


def _fractions(text: str) -> str:
    """Return `text` with braces around the one character above and below each line."""
    done, *fractions = text.split(r"\frac")
    for part in fractions:
        if part[0] != "{":
            if len(part) == 1:
                return text
            below = part[1:] if part[1] == "{" else f"{{{part[1]}}}{part[2:]}"
            part = f"{{{part[0]}}}{below}"
        done += rf"\frac{part}"
    return done
