"""Extraction of the final answer from a mathematical response: text in, answer text out.

Every step is linear in the response's length. All but the search for boxes and "####" look only at
its last TAIL characters.
"""

import re

LONGEST = 2000  # characters of an answer that are looked at; the longest gold of all sets has 597
TAIL = 4000  # characters at the end in which an answer without a box is searched
GAP = 80  # characters allowed between two boxes that together hold one answer
MOST_BOXES = 20

BOX = re.compile(r"\\f?boxe?d?\s*")
TOKENS = re.compile(r"<\|[a-z_]{1,20}\|>")
MARKER = re.compile(
    r"\b(?:answer|Antwort|Ergebnis|L[öo]sung)(?:\W{0,6}\b(?:is|are|ist|lautet)\b\W{0,3}?"
    r"(?=[^\s:*]|\s)[\s:*]*|\s*\**\s*[:=：][\s*]*)|^\s*\**A:[\s*]*"
    r"|答案?\s*(?:应该|应)?(?:[是为為]\s*[:：]?|[:：])\s*",
    re.IGNORECASE | re.MULTILINE,
)
# A base model goes on with another question; after a first answer no more than that is read.
STATED = re.compile(rf"\\boxed|\\fbox|####|</answer>|{MARKER.pattern}", MARKER.flags)
NEXT = re.compile(
    r"<\|(?:endoftext|im_\w+|eot_id|end_of_text)\|>|\n[\s*#]*(?:Instruction\s*:?\n|(?:Question|Q"
    r"|Problem|Exercise|Example|Human|User|Input|Instruction)[\s*]{0,3}\d{0,3}[\s*]{0,3}:)"
)
MATH = re.compile(
    r"\$\$(?P<a>(?:[^$]|\\\$){1,1000}?)\$\$|(?<!\\)\$(?P<b>(?:\\\$|[^$]){1,1000}?)(?<!\\)\$"
    r"|\\\((?P<c>.{1,1000}?)\\\)|\\\[(?P<d>.{1,1000}?)\\\]",
    re.DOTALL,
)
# A number that does not continue a word or another number: "so 1,000.99" but not "AZYUK2A".
NUMBER = re.compile(
    r"(?<![\w.,/^\\])[-+]?[$€£]?(?:\d{1,3}(?:,(?:\\!)?\d{3})+(?![\d])|\d+)?(?:\.?\d+)?"
    r"(?:(?<=\d)/\d+)?(?:\s*(?:\\?%|percent|pct))?",
)
# An expression in plain text: numbers, letters and brackets that operators or nothing join.
ATOM = (
    r"(?:\\(?!cdot|times|pm|text)[a-zA-Z]+\s*(?:\{[^{}\n]{0,60}\})*"
    r"|(?:sqrt|sin|cos|tan|log|ln|exp)\b\s*|\d+(?:,\d{3})*(?:\.\d+)?\\?[%°!]?|\.\d+|[πi∞]"
    r"|(?<![A-Za-z])[A-Za-z](?![A-Za-z'’])[²³]?|[\[(][^][()\n]{1,60}[\])]|\{[^{}\n]{1,60}\})"
)
EXPRESSION = re.compile(
    r"(?<![A-Za-z0-9_.])(?i:(?:between|can't be|cannot be|isn't|at least|at most|over|under|up to"
    r"|(?:more|less|fewer) than|negative|minus|not|half of|twice|double|triple|root of"
    r"|nicht|mindestens|höchstens|(?:mehr|weniger) als|halb)\s+"
    r"|(?:不|至少|至多|最多|不到|超过|[多少大小]于)是?|负)?"
    r"[-+−]?\\?[$€£]?√?"
    rf"{ATOM}(?>\s*(?:\\(?:cdot|times|pm)|[-+*/^=×·÷−√<>≤≥±:_]{{1,2}})\s*[-−√]*{ATOM}|√?{ATOM})*+"
    r"[百千万亿]?(?:\s+(?:(?:hundred|thousand|million|billion|trillion|dozen)s?|squared|cubed|percent"
    r"|or (?:more|less|fewer))\b)*"
)
FACTOR = re.compile(  # what follows an expression that is no answer, or not all of it
    r"[+*^×·√\\]|(?:times )?(?:[xyzn]|pi|sqrt)(?![A-Za-z'’])|(?:is|was)(?:n't| not| wrong)\b"
)
LABEL = re.compile(r"(?i)(?:step|case|part|equation|problem|question|figure|lemma|theorem)\s*$")
BOLD = re.compile(r"\*\*([^*\n]{1,80})\*\*")
WORDS = re.compile(r"(?<![\\\w])[^\W\d_]{2,}(?:[ ,]+[^\W\d_]{2,}){2,}(?![\w(])")
LEADING_WORDS = re.compile(r"\A[A-Za-z][A-Za-z ,:]*(?=\$|\\\(|\\\[)")
NUMBER_STATED = re.compile(r"(?:\b(?:is|are|was|equals|by|to|of)|[:=])\s*(?=[-+]?[$€£]?[\d.])")
INTRODUCED = re.compile(
    r"(?:(?:[A-Za-z']+[,:]? ){2,}|[A-Za-z]+[,:] |[A-Za-z]+ (?:is|are|equals) "
    r"|[，\u4e00-\u9fff]+|(?:about|around|approximately|exactly|only|so|thus|hence|also) )",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"\n|(?<=[.!?])\s+(?=[A-Z*])|(?<=。)")
SENTENCE_END = re.compile(r"\n|\.\s+(?=[A-Z])|\.\s*$|。|\s+I hope\b")


def final_answers(response: str) -> list[str]:
    """Return the texts of the final answer of `response`; [] where it has none.

    There are several texts only where several boxes closely follow each other. Then the last is the
    answer, or all together are if the gold has as many parts. docs/verifiers.md lists the seven
    rules: the first that applies decides.
    """
    response = after_thought(response)
    after = [match.start() for match in NEXT.finditer(response)]
    if after and (first := STATED.search(response)):
        response = response[: next((at for at in after if at >= first.end()), None)]
    if (inside := tagged(response)) is not None:
        return final_answers(inside)
    boxes = last_boxes(response)
    if boxes is not None or "<think>" in response or "<answer>" in response:
        return boxes or []  # a thought or tag that never ends has an answer only in a box
    tail = TOKENS.sub(" ", response[-TAIL:]).strip()
    if (start := response.rfind("####")) >= 0:
        found = _sentence(TOKENS.sub(" ", response[start + 4 : start + 4 + TAIL]))
    else:
        ends = reversed([match.end() for match in MARKER.finditer(tail)])
        sentence = next(filter(None, (_sentence(tail[end:]) for end in ends)), None)
        found = _stated(sentence or tail) or sentence
    return [found] if found and found.strip() else []


def tagged(response: str) -> str | None:
    """Return what stands in the last closed <answer>; None if it is empty or a box follows it."""
    response = re.sub(r"(?i)<(/?)answer>", r"<\1answer>", response)
    before, _, after = response.rpartition("</answer>")
    _, opened, inside = before.rpartition("<answer>")
    if not opened or not inside.strip() or last_boxes(after):
        return None
    return inside.strip()


def after_thought(response: str) -> str:
    return response.rpartition("</think>")[2]


def last_boxes(text: str) -> list[str] | None:
    """Return the contents of the last box and of the boxes that closely precede it; None where
    there is no box, [] where the last one is cut off."""
    contents, end, following = [], len(text), None
    while len(contents) < MOST_BOXES:
        start = max(text.rfind("\\boxed", 0, end), text.rfind("\\fbox", 0, end))
        if start < 0 or (following is not None and following - start > GAP + LONGEST):
            break
        content, stop = _content(text, start)
        if following is None and content is None:
            return []
        gap = text[stop:following] if following is not None else ""
        if content is None or len(gap) > GAP or "\n\n\n" in gap or stop > (following or len(text)):
            break
        contents.append(content)
        end = following = start
    return contents[::-1] or None


def last_number(text: str) -> str | None:
    numbers = reversed(NUMBER.findall(text[-TAIL:]))
    return next((number for number in numbers if any(map(str.isdigit, number))), None)


def has_prose(text: str) -> bool:
    """Return whether three plain words follow each other outside formulas."""
    return WORDS.search(MATH.sub(" ", text[:TAIL])) is not None


def balanced(text: str) -> str:
    """Return `text` without unpaired braces, so that it can stand in a box."""
    drop, opened = set(), []
    for at, brace in _braces(text):
        if brace == "{":
            opened.append(at)
        elif opened:
            opened.pop()
        else:
            drop.add(at)
    drop.update(opened)
    return "".join(character for at, character in enumerate(text) if at not in drop)


def _braces(text: str, start: int = 0, stop: int | None = None):
    for match in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, start, stop or len(text)):
        if match.group() in "{}":
            yield match.start(), match.group()


def _content(text: str, start: int) -> tuple[str | None, int]:
    """Return what the box at `start` holds and where it ends; (None, end) if it is cut off."""
    opening = BOX.match(text, start).end()
    limit = min(len(text), opening + LONGEST + 2)
    if opening >= len(text):
        return None, limit
    if text[opening] != "{":  # \boxed 7, \boxed7$
        match = re.compile(r"[^\s$]+").match(text, opening)
        return (match.group(), match.end()) if match else (None, limit)
    depth = 0
    for at, brace in _braces(text, opening, limit):
        depth += 1 if brace == "{" else -1
        if depth == 0:
            return text[opening + 1 : at], at + 1
    if limit < len(text):  # longer than any answer, closed or not: let the guards refuse it
        return text[opening + 1 : limit], limit
    closing = re.compile(r"(?<!\\)\$|\\\)|\\\]|\n").search(text, opening, limit)
    return (text[opening + 1 : closing.start()], closing.end()) if closing else (None, limit)


def _sentence(text: str) -> str:
    """Return `text` up to the end of its first sentence or line, ignoring dots inside formulas."""
    text = text.strip()
    masked = MATH.sub(lambda match: "_" * len(match.group()), text)
    end = SENTENCE_END.search(masked)
    return text[: end.start()].strip() if end else text


def _stated(text: str) -> str | None:
    """Return the answer in a statement: all of it if it is one line and no sentence, else the only
    expression or bold text of the closing sentence, else the last formula or expression."""
    formulas = list(MATH.finditer(text))
    if "\n" not in text and not has_prose(text):
        bare = LEADING_WORDS.sub("", text, count=1)
        found = _expressions(bare)
        short = INTRODUCED.match(bare) and len(found) == 1 and not formulas
        return found[0] if short and not re.search(r"\b(?:and|or)\b", bare) else bare
    rest = text[formulas[-1].end() :] if formulas else text
    if formulas and NUMBER_STATED.search(rest):
        return next(reversed(_expressions(rest)), None)
    sentences = SENTENCE.split(rest)[bool(formulas) :]  # the first holds the formula
    closing = next((one for one in reversed(sentences) if any(map(str.isalnum, one))), "")
    found, bold = _expressions(closing), BOLD.findall(closing)
    if len(found) == 1 or (not found and len(bold) == 1 and not re.search(r"\d", closing)):
        return (found or bold)[0]
    if formulas:
        return next(filter(None, formulas[-1].groups()))
    return next(reversed(_expressions(text)), None)


def _expressions(text: str) -> list[str | None]:
    """Return the expressions with a digit, root or constant in plain text, without labels (step 3);
    None for what an operator joins to something that is no expression."""
    text, found, end = BOLD.sub(r"\1", text), [], 0
    for match in EXPRESSION.finditer(text):
        before, after = text[: match.start()].rstrip(), text[match.end() :].lstrip()
        if re.search(r"[\dπ∞√]", match.group()) and not LABEL.search(before):
            joined = before[-1:] in tuple("+-*/^×·√−<>\\") and len(before) > 1
            listed = found and before[end:].strip(" ,$") in ("and", "or", "to")
            joined, end = joined or listed, match.end()
            found.append(None if joined or FACTOR.match(after) else match.group())
    return found
