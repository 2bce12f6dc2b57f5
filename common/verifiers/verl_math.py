"""The grader of verl's reward for MATH (verl.utils.reward_score.math_reward of 0.9.1): no algebra.

The text in the response's last box and the gold are rewritten by the rules of MATH's authors and
must then be the same: 0.5 is \\frac{1}{2}, but 0.75 is not \\frac{3}{4}. Left out is what verl does
with a root or fraction of nothing, which no gold has.
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
    except ValueError:  # several units: verl compares the texts as they are
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
        text, _ = text.split(r"\text{ ")  # the unit
    for old, new in ((r"\\%", ""), (r"\%", ""), (" .", " 0."), ("{.", "{0.")):
        text = text.replace(old, new)
    text = f"0{text}" if text.startswith(".") else text
    name, _, value = text.partition("=")
    text = value if len(name) <= 2 and text.count("=") == 1 else text
    text = re.sub(r"\\sqrt([^{])", r"\\sqrt{\1}", text).replace(" ", "")
    text = re.sub(r"\\frac([^{])(?={)", r"\\frac{\1}", text)
    text = re.sub(r"\\frac([^{])([^{])", r"\\frac{\1}{\2}", text)
    text = r"\frac{1}{2}" if text == "0.5" else text
    return re.sub(rf"\A({WHOLE})/({WHOLE})\Z", r"\\frac{\1}{\2}", text)
