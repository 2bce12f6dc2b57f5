"""The math verifier, but for references of this module: these are compared as verl's reward for
MATH does it (verl.utils.reward_score.math_reward of 0.9.1), without algebra.

So a run has one verifier, and each of its sets the comparison that its `reference` asks for. The
text in the response's last box and the gold are rewritten by the rules of MATH's authors and must
then be the same: 0.5 is \\frac{1}{2}, but 0.75 is not \\frac{3}{4}. Left out is what verl does with
a root or fraction of nothing, which no gold has.
"""

import json
import re

from common.errors import require
from common.types import Verdict
from common.verifiers import math

PRELOAD = math.PRELOAD
MARK = "verl_math"  # of a reference of this module
WHOLE = r"(?:-?[1-9][0-9]*|0)"
REWRITTEN = (
    *((old, "") for old in ("\n", r"\!")),
    ("\\\\", "\\"),
    *((old, "frac") for old in ("tfrac", "dfrac")),
    *((old, "") for old in (r"\left", r"\right", r"^{\circ}", r"^\circ", r"\$")),
)


def verify(response: str, reference: str) -> Verdict:
    """Return math's verdict, or, for a reference of this module, that on the equality of texts.
    Then unparsed means: no \\boxed{...}, or one that never closes."""
    gold = _gold(reference)
    if gold is None:
        return math.verify(response, reference)
    answer = _boxed(response)
    if answer is None:
        return Verdict("unparsed", 0.0, reason="no closed box")
    try:
        text, gold = _plain(answer), _plain(gold)
    except ValueError:  # several units: verl compares the texts as they are
        text = answer
    return Verdict("correct" if text == gold else "wrong", float(text == gold), text[:200])


def reference(row: dict) -> str:
    """Return the reference of a data row. Raises UserError as math's does, and for a row that
    states a tolerance or a unit, which no text can have."""
    gold = math.reference(row)
    require(not gold.startswith('{"'), f"row {row.get('id')}", gold[:80], "verl compares texts")
    return json.dumps({MARK: gold})


def example(reference: str) -> str | None:
    """Return a response that is correct."""
    return math.example(_gold(reference) or reference)


def _gold(reference: str) -> str | None:
    return json.loads(reference)[MARK] if reference.startswith(f'{{"{MARK}": ') else None


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
