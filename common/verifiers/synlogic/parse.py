"""Find and read the answer in a model's text. The text is scanned and compared, never run.

Every pattern is bounded or has exclusive alternatives, and only the last LONGEST characters of a
response count, so a hostile response costs a few milliseconds.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

LONGEST = 100_000  # characters of a response that are looked at, from its end
LIST = 20_000  # characters of one list
BOX = 4_000  # characters of one \boxed{}
STARTS = 8  # lists that are tried, from the end, until one is closed and regular

FENCE = "```"
LANGUAGE = re.compile(
    r"(?:(?:python3?|py|json|text|txt|plaintext|latex|math)?[ \t]{0,9}\n|python3?\s)", re.I
)
BRACE = re.compile(r"\\.|[{}]", re.S)
PHRASE = re.compile(
    r"(?:answer\s{1,9}is|answer\s{0,9}[:：]|答案\s{0,9}[是为:：])\s{0,9}[:：]?", re.I
)
WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathit)\s{0,3}\{([^{}]{0,1000})\}")
DRESSING = re.compile(r"\\(?:left|right|displaystyle)\b|[$*`]")
LISTS = re.compile(r"[\[({](?=\s{0,200}[\[({])")
TOKEN = re.compile(
    r"""\#[^\n]*|"(?:[^"\\\n]|\\.){0,200}"|'(?:[^'\\\n]|\\.){0,200}'|[\[({\])},，]"""
    r"""|\s+|[^\s,，\[\](){}"'\#]+|.""",
    re.S,
)
CLOSING = {"[": "]", "(": ")", "{": "}"}
FENCED = "```python\n{}\n```"  # the form of most answers


class Unparsed(Exception):
    """The text holds no answer of the asked form; its message says what is missing."""


class Task(NamedTuple):
    """How one task is read and checked.

    read    (final text) -> the answer in a normal form, a string or lists of strings, or raises
            Unparsed
    check   (that answer, stored answer as text or None, puzzle) -> "" if right, else what is wrong
    form    a response, with {} in the place of the stored answer; "" where that is no response
    keys    the metadata that `check` needs: the puzzle
    stored  the metadata key of the answer, for rows whose `answer` is empty
    gold    whether `check` needs the stored answer
    """

    read: Callable[[str], Any]
    check: Callable[[Any, Any, dict], str]
    form: str
    keys: tuple[str, ...] = ()
    stored: str = ""
    gold: bool = False


def final(response: str) -> str:
    """Return the last LONGEST characters of the response after its last </think>. Raises Unparsed
    if a <think> is not closed."""
    text = response.rpartition("</think>")[2]
    if "<think>" in text:
        raise Unparsed("<think> is not closed")
    return text[-LONGEST:]


def marked(text: str) -> str | None:
    r"""Return what the last code fence, \boxed{} or <answer> holds, or what is marked inside it."""
    content = None
    for _ in range(3):
        places = [place for place in (_fence(text), _box(text), _tag(text)) if place]
        if not places:
            break
        content = text = max(places)[1]
    return content


def said(text: str) -> str | None:
    """Return the marked answer, else the line after the last "answer is", "答案是" or the like."""
    answer = marked(text)
    if answer is None:
        phrases = list(PHRASE.finditer(text))
        if phrases:
            answer = text[phrases[-1].end() :].strip().split("\n", 1)[0]
    return answer


def stated(text: str) -> str:
    answer = said(text)
    if answer is None:
        raise Unparsed("no \\boxed{}, code block or 'answer is'")
    return answer


def last_line(text: str) -> str:
    answer = said(text)
    if answer is None:
        answer = text.strip().rsplit("\n", 1)[-1]
        if not answer:
            raise Unparsed("empty response")
    return answer


def tidy(text: str) -> str:
    """Return `text` without LaTeX and Markdown dressing, full stop, quotes and doubled spaces."""
    text = DRESSING.sub("", WRAPPED.sub(r"\1", text[:BOX])).replace("\\_", "_").replace("\\ ", " ")
    return " ".join(text.split()).strip(" .。\"'“”")


def grid(text: str) -> list[list[str]]:
    """Return the last closed list of lists of atoms, with brackets of any kind, each atom as a
    string, as JSON or Python would read it (quotation marks optional, comments skipped), without
    evaluating anything."""
    starts = [match.start() for match in LISTS.finditer(text)]
    for start in reversed(starts[-STARTS:]):
        rows = _nested(text, start)
        listed = rows and all(isinstance(row, list) and row for row in rows)
        if listed and all(isinstance(atom, str) for row in rows for atom in row):
            return rows
    raise Unparsed("no closed list of lists")


def misshapen(rows: list[list], height: int, width: int) -> str:
    fits = len(rows) == height and all(len(row) == width for row in rows)
    return "" if fits else f"not a grid of {height} x {width}"


def canonical(value: str | list) -> str:
    """Return `value` on one line of at most 200 characters; a longer one ends in its digest."""
    if not isinstance(value, str):
        rows = [row if isinstance(row, list) else [row] for row in value]
        gap = "" if all(len(atom) == 1 for row in rows for atom in row) else " "
        value = "/".join(gap.join(row) for row in rows)
    raw = value.encode("utf-8", "replace")  # lone surrogates cannot be written to a file
    value = raw.decode("utf-8")
    if len(value) > 200:
        value = f"{value[:180]}...{hashlib.sha256(raw).hexdigest()[:16]}"
    return value


def _fence(text: str) -> tuple[int, str] | None:
    count = text.count(FENCE)
    if count == 0:
        return None
    end = len(text) if count % 2 else text.rfind(FENCE)  # odd: the last block is not closed
    start = text.rfind(FENCE, 0, end) + len(FENCE)
    content = text[start:end]
    language = LANGUAGE.match(content)
    return end, content[language.end() :] if language else content


def _box(text: str) -> tuple[int, str] | None:
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    start += len("\\boxed{")
    depth = 1
    for match in BRACE.finditer(text, start, start + BOX):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if depth == 0:
            return match.start(), text[start : match.start()]
    return None


def _tag(text: str) -> tuple[int, str] | None:
    before, opened, rest = text.rpartition("<answer>")
    inside = rest.partition("</answer>")[0]
    return (len(before + opened + inside), inside) if opened else None


def _nested(text: str, start: int) -> list | None:
    """Return the list that opens at `start`; None if it is not closed, or irregular."""
    stack: list[tuple[str, list]] = []
    words: list[str] = []
    for match in TOKEN.finditer(text, start, start + LIST):
        token = match.group()
        if token in CLOSING:
            if words:
                return None
            stack.append((CLOSING[token], []))
        elif token in "])},，":
            if words:
                stack[-1][1].append(" ".join(words))
                words = []
            if token in "])}":
                closing, items = stack.pop()
                if token != closing:
                    return None
                if not stack:
                    return items
                stack[-1][1].append(items)
        elif token[0] in "\"'":
            if len(token) == 1:
                return None
            words.append(_unquoted(token[1:-1]))
        elif token[0] != "#" and not token.isspace():
            words.append(token)
    return None


def _unquoted(text: str) -> str:
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\(.)", r"\1", text, flags=re.S).strip()
