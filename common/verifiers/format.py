r"""The format reward of cov_grpo: are the think tags matched? It says nothing about the answer.

The paper (App. C): "a reward of 1.0 when the output contains properly matched <think> tags". Two
readings:

matched  exactly one <think> and one </think>, in this order, with text after them. The paper asks
         neither for <answer> tags, nor for an empty text before <think>, nor for a thought that
         is not empty
open_rs  the rule of Open-RS, whose data and recipe the paper uses: "\n</think>\n" occurs exactly
         once. The prompt of Open-RS holds the opening tag, so responses need not have it

Where the prompt ends in <think> (as with the chat template of DeepSeek-R1-Distill), set
opened=true: otherwise "matched" makes every response wrong that does not repeat the tag.
"""

from common.errors import require
from common.types import Verdict

OPEN, CLOSE = "<think>", "</think>"


def verify(
    response: str, reference: str, *, convention: str = "matched", opened: bool = False
) -> Verdict:
    """Return the verdict on the tags of `response`, "correct" or "wrong"; the reference is ignored.
    Raises UserError for an unknown convention."""
    require(convention in ("matched", "open_rs"), "convention", convention, "matched or open_rs")
    if convention == "open_rs":
        count = response.count("\n</think>\n")
        return _verdict("" if count == 1 else f"{count} closing tags on lines of their own")
    text = OPEN + response if opened and not response.lstrip().startswith(OPEN) else response
    if (text.count(OPEN), text.count(CLOSE)) != (1, 1):
        return _verdict(f"{text.count(OPEN)} opening and {text.count(CLOSE)} closing think tags")
    if text.index(CLOSE) < text.index(OPEN):
        return _verdict("the closing think tag comes first")
    if not text[text.index(CLOSE) + len(CLOSE) :].strip():
        return _verdict("nothing follows the thought")
    return _verdict("")


def reference(row: dict) -> str:
    return ""


def example(reference: str) -> str:
    return "<think>\nthought\n</think>\nanswer"


def _verdict(fault: str) -> Verdict:
    return Verdict("wrong", 0.0, reason=fault) if fault else Verdict("correct", 1.0)
