"""Verifier of multiple-choice answers: ARC, MMLU-Pro, GPQA.

The reference is JSON {"answer": "C", "options": [...]}. Letters follow the order of the options
(the first is A); nothing is shuffled here. Each of the CONVENTIONS looks elsewhere for the letter
(docs/verifiers.md); those of others are TIGER-AI-Lab/MMLU-Pro's scripts and lm-eval 0.4.13's task.
A letter beyond the options, or no letter, is "unparsed". No letter is guessed at random, as the
script of MMLU-Pro's authors does. Left out: answers with several letters.
"""

import json
import re
import string
from functools import lru_cache

from common.errors import UserError, require
from common.types import Verdict
from common.verifiers.math.extract import TOKENS, after_thought, last_boxes, tagged

LETTERS = string.ascii_uppercase
LONGEST = 2000  # characters of a statement or box that are compared with options
MOST_STATEMENTS = 20

FIRST_LEVEL = re.compile(r"answer is \(?([A-J])")  # any text may follow the letter
SECOND_LEVEL = re.compile(r"[aA]nswer:(?=\s*([A-J]))")

# What "ours" reads. A statement begins with one of these; the second group is strict: these words
# say other things too, so nothing but a letter may follow.
BEST = "correct|right|best|final|chosen|selected|likely|accurate|appropriate|suitable|my"
STATEMENT = re.compile(
    rf"""
    \b(?:answer(?:\s(?:choice|option|letter))?|ans|(?:{BEST})\s(?:option|choice|selection|letter|one))\b
        (?:[\s*_"'`]{{0,3}}|,?\s(?:here|then|therefore|thus|I\s\w{{1,9}}),?\s)
        (?:(?:to|for|of)\s[^.:\n]{{1,80}}?\s)?
        (?:\b(?:is|(?:must|should|would|will|ha[sd]\sto|(?:seem|appear)s\sto|turns\sout\sto)
            (?:\s\w+)?\sbe)\b|(?<=')s\b|[:=→]|[-–—]>?(?=\s))
    | ^\W{{0,6}}(?:option|choice|selection)["'*_]{{0,3}}\s?[:=]
    | \b(?:antwort|lösung|option|richtig)\b(?:\sist|\slautet|:|(?=\s[A-Z]\srichtig))
    | 答案|故选|应选|选择
    | (?P<strict>
        \b(?:wait|actually|sorry|correction|scratch\sthat|make\sthat|no|so|therefore|thus|hence)\b
            [\s,.:;!—-]{{1,3}}(?:(?:it|that)(?:'s|\sis)\b)?
        | \b(?:it\s(?:must|should)\sbe|(?:which|that|this)\sis,?|matches|corresponds\sto)\b
        | (?:\b(?:I|we)(?:'d|'ll|\swould|\swill)?\s|^\W{{0,3}})(?:choose|pick|select|say|go\swith)\b
        | ^\W{{0,6}}(?:correct|solution|conclusion)["'*_]{{0,3}}:
        | 选)
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
UNREAL = re.compile(
    r"(?:\b(?:if|whether|suppose|assum\w+|n?either|not|none|some|nobody|might|could|wrong|"
    r"incorrect|why)|n't)\b"
    r"(?![^.,;:\n]*\bbut\b)[^.,;:\n]*$",
    re.IGNORECASE,
)
IF = re.compile(r"(?:\s(?:option|choice|answer))?,?\s(?:only\s)?(?:if|unless)\b")
FILLER = (
    r"(?i:[\s:*_,#>=-]{0,9}(?:(?:therefore|thus|hence|so|then|clearly|indeed|definitely|probably|"
    r"(?:most\s)?likely|approximately|final|it's|it\sis|(?:must|should)\sbe|option|choice|letter|answer|"
    r"not\s[(]?[A-Z][)]?,?\sbut|是|为|选|项)[\s:,*_]{0,3}){0,4})"
)
END = r"(?:(?![^\W_一-鿿])|(?=\d:))"  # no word goes on, but a Chinese one; "C1: ..." is option C
NAMED = re.compile(rf"{FILLER}(?:[(\[<]\s?([A-Z])\s?[)\]>]|[(\[]?([A-Z]){END})")
NONE = re.compile(rf"{FILLER}(?i:not|either|both|neither|none|between|unclear|unknown|cannot)\b")
MORE = re.compile(rf"\s*(?:[,/&;或和、\s]|or|and)+(?:(?:option|choice)\s)?[(\[]?([A-Z])[)\]]?{END}")
CONTINUED = re.compile(r"['’^_=+*/<>-]|\s[=+*/<>-]|\.\d|\?")  # "C-14", "C = 3", "C?"
GRAMMAR = re.compile(r"\s[a-z]+(?<!because)(?<!since)(?<!\sas)(?<!\sfor)(?<!\sis)(?<!\sby)\b")
ENDED = re.compile(r"\W*$|[.;!]\s|,?\s(?:because|since|as|for)\b")
CORRECT = re.compile(
    rf"(?:[(\[]([A-Z])[)\]]|(?<![A-Za-z])([A-Z])\b[.:]?)\s(?i:is|ist|(?:must|should|would)\sbe)\s(?:"
    rf"(?i:the|an?|also|thus|therefore|clearly|indeed|definitely|only|most)\s){{0,3}}(?i:{BEST}|answer|"
    rf"richtig|korrekt)\b|(?<![A-Za-z])([A-Z])\s?(?:是|为)?正确"
)
JOINED = re.compile(r"\b[A-Z]\)?\s?(?:,|/|&|or|and)\s(?:(?:option|choice)\s)?$")
DOUBT = re.compile(
    r"\b(?:wait|scratch that|on second thought|but no|that(?:'s| is) (?:wrong|(?:in|not )correct)"
    r"|actually not|reconsider)\b",
    re.IGNORECASE,
)
NEXT = re.compile(r"\s(?:Question|Q)\s?\d{0,3}:")  # a base model goes on with another one
FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
BOXES = re.compile(r"\}[\s$]*(?:or|and|[,/&])[\s$]*\\f?box(?:ed)?\s?\{[^{}]*\}\W*$")  # two answers
LONE = re.compile(rf"{FILLER}[(\[]?\s*([A-Za-z])\s*[)\].:,]*")
LABELLED = re.compile(r"(?:(?i:option|choice)\s)?[(\[]?([A-Za-z])\s*[)\].:]+\s*(.*)", re.DOTALL)
WRAPPING = re.compile(
    r"\\(?:text[a-z]{0,2}|math[a-z]{2}|boxed|[()\[\],;! ])"
    r"|[{}$*`\"“”【】「」]|(?<!\w)['‘]|['’](?!\w)"
)


def verify(response: str, reference: str, *, convention: str = "ours") -> Verdict:
    """Return the verdict on the letter that `convention` (see above) finds in `response`.

    `parsed` is the letter. Raises UserError for a bad reference or an unknown convention.
    """
    require(convention in CONVENTIONS, "convention", convention, f"one of {list(CONVENTIONS)}")
    gold, options = _parse(reference)
    letter = CONVENTIONS[convention](response, options)
    if letter is None:
        return Verdict("unparsed", 0.0, reason="names no option")
    if letter not in LETTERS[: len(options)]:
        return Verdict("unparsed", 0.0, reason=f"{letter} is beyond the {len(options)} options")
    if letter != gold:
        return Verdict("wrong", 0.0, letter, f"{letter}, not {gold}")
    return Verdict("correct", 1.0, letter)


def reference(row: dict) -> str:
    """Return the letter and the options of a row as JSON, from `answer` (in a case row: `gold`) and
    `options` (in ARC and GPQA: `choices`). Where `answer_index` contradicts the letter (MMLU-Pro
    3983), the letter counts, as in the authors' script. Raises UserError for a bad row."""
    key = "answer" if row.get("answer") else "gold"
    answer, options = row.get(key), row.get("options") or row.get("choices")
    made = json.dumps({"answer": answer, "options": options}, sort_keys=True)
    try:
        _parse(made)
    except UserError as error:
        raise UserError(f"row {row.get('id')}: {error}") from error
    return made


def example(reference: str) -> str:
    """Return a response that is correct under every convention."""
    gold, _ = _parse(reference)
    return f"The answer is ({gold}).\n\\boxed{{{gold}}}"


@lru_cache(maxsize=4096)
def _parse(reference: str) -> tuple[str, tuple[str, ...]]:
    try:
        fields = json.loads(reference)
        answer, options = fields["answer"], fields["options"]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f'reference={reference[:80]}: must be JSON {{"answer": letter, "options": [...]}}'
        ) from error
    sound = isinstance(options, list) and 0 < len(options) <= len(LETTERS)
    sound = sound and all(isinstance(option, str) and option.strip() for option in options)
    said = f"must be 1 to {len(LETTERS)} texts that are not empty"
    require(sound, "options", str(options)[:80], said)
    said = f"must be the letter of one of the {len(options)} options"
    known = isinstance(answer, str) and len(answer) == 1 and answer in LETTERS[: len(options)]
    require(known, "answer", str(answer)[:80], said)
    return answer, tuple(options)


# ---- conventions: (response, options) -> letter or None


def _ours(response: str, options: tuple[str, ...]) -> str | None:
    text = TOKENS.sub(" ", after_thought(response)).translate(FULL_WIDTH)
    text = tagged(text) or text
    boxes = last_boxes(text)
    if boxes == [] or BOXES.search(text[-LONGEST:]):  # the response breaks off in a box
        return None
    box = boxes[-1] if boxes else ""
    if "<think>" in text or "<answer>" in text.rpartition("</answer>")[2]:  # a box counts alone
        text = ""
    first = STATEMENT.search(text)
    if first and (question := NEXT.search(text, first.end())):
        text = text[: question.start()]
    steps = [(_letter_of, box), (_letter_of, text), (_named, text), (_closing, text)]
    found = (step(part, options) for step, part in [*steps, (_stated, text), (_named, box)])
    return next((letter for letter in found if letter is not None), None) or None


def _mmlu_pro(response: str, options: tuple[str, ...]) -> str | None:
    """Return the first match of FIRST_LEVEL. Without one, return the last match in the first line
    that SECOND_LEVEL matches: what the authors' `.*[aA]nswer:...` finds, in linear time."""
    letter, first = _lm_eval(response, options), SECOND_LEVEL.search(response)
    if letter or not first:
        return letter
    end = response.find("\n", first.start())
    for match in SECOND_LEVEL.finditer(response, first.start()):
        if end < 0 or match.start() < end:
            letter = match[1]
    return letter


def _lm_eval(response: str, options: tuple[str, ...]) -> str | None:
    first = FIRST_LEVEL.search(response)
    return first.group(1) if first else None


CONVENTIONS = {"ours": _ours, "mmlu_pro": _mmlu_pro, "lm_eval": _lm_eval}


# ---- parts of them


def _closing(text: str, options: tuple[str, ...]) -> str | None:
    """Return the letter that the last line names by itself: a letter, an option, or both, unless
    the line before is another option; or the one letter that it calls correct. "" for several."""
    lines = [line for line in text[-LONGEST:].splitlines() if re.search(r"\w", line)] or [""]
    sole = [_sole(line, options) for line in lines[-2:]]
    if sole[-1] and (len(sole) == 1 or sole[0] in (None, sole[1])):
        return sole[-1]
    line, called = _plain(lines[-1]), set()
    for match in CORRECT.finditer(line):
        before = line[max(0, match.start() - 40) : match.start()]
        if UNREAL.search(before) or IF.match(line, match.end()):
            continue
        if JOINED.search(before):
            return ""
        called.add(match[1] or match[2] or match[3])
    return called.pop() if len(called) == 1 else "" if called else None


def _sole(line: str, options: tuple[str, ...]) -> str | None:
    """Return the letter of a line that holds a letter, an option or both, and nothing else."""
    line = line.strip("#>=→⇒∴-_ \t")
    letter = _letter_of(line, options)
    labelled = LABELLED.fullmatch(_plain(line))
    if labelled and labelled[2] and _named(labelled[2], options) != labelled[1].upper():
        return None
    return letter or _named(line, options)


def _stated(text: str, options: tuple[str, ...]) -> str | None:
    """Return the letter of the last statement that can be read; "" where it names none."""
    for match in list(STATEMENT.finditer(text))[-MOST_STATEMENTS:][::-1]:
        if UNREAL.search(text[max(0, match.start() - 40) : match.start()]):
            continue
        rest = text[match.end() : match.end() + LONGEST].lstrip("\n :*_\"'")
        letter = _read(rest.partition("\n")[0], options, match["strict"] is not None)
        if letter is not None:
            return "" if DOUBT.search(text, match.end()) else letter
    return None


def _read(statement: str, options: tuple[str, ...], strict: bool) -> str | None:
    """Return the letter that the rest of a statement names, "" for several or a denial, None where
    it cannot be read. Where `strict`, nothing but punctuation may follow a letter."""
    if not strict and (letter := _named(statement, options)):
        return letter
    plain = _plain(statement)
    if not (named := NAMED.match(plain)):
        if NONE.match(plain):
            return None if strict else ""
        short = re.split(r"[.;]\s|,\s(?=[a-z])|\s(?:because|since|as)\s", statement, maxsplit=1)[0]
        lower = re.fullmatch(rf"{FILLER}[(\[]?([a-z])[)\].]*", _plain(short))
        return None if strict else lower[1].upper() if lower else _named(short, options)
    letter, rest = named[1] or named[2], plain[named.end() :]
    more = MORE.match(rest)
    if re.match(r",?\sor\b", rest) or (more and letter != more[1] in LETTERS[: len(options)]):
        return None if strict and re.search(r"\b(?:is|are)\b", rest) else ""
    if _named(rest.lstrip(" -–—:.,"), options) == letter:
        return letter
    if IF.match(rest) or (strict and not ENDED.match(rest)):
        return None
    if named[2] and (CONTINUED.match(rest) or (letter in "AI" and GRAMMAR.match(rest))):
        return None  # part of a formula; an article or pronoun
    return letter


def _letter_of(text: str, options: tuple[str, ...]) -> str | None:
    """Return the letter that `text` is, alone or with its option ("(C) 42 N")."""
    if len(text) > LONGEST:
        return None
    plain, own = _plain(text), _named(text, options)
    if (lone := LONE.fullmatch(plain)) and (lone[1].isupper() or own is None):
        return lone[1].upper()
    labelled = LABELLED.fullmatch(plain)
    if labelled and (at := LETTERS.index(labelled[1].upper())) < len(options):
        if _canonical(labelled[2]) == _canonicals(options)[at]:
            return LETTERS[at]
        second = re.search(rf"\b[{LETTERS[: len(options)]}]\b", labelled[2])
        return labelled[1] if labelled[1].isupper() and not second else None
    return None


def _named(text: str, options: tuple[str, ...]) -> str | None:
    """Return the letter of the only option whose text is `text`; None without exactly one."""
    if len(text) > LONGEST:
        return None
    wanted, texts = _canonical(text), _canonicals(options)
    return LETTERS[texts.index(wanted)] if wanted and texts.count(wanted) == 1 else None


def _plain(text: str) -> str:
    return WRAPPING.sub("", text).strip()


def _canonical(text: str) -> str:
    return " ".join(_plain(text).casefold().split()).rstrip(".")


@lru_cache(maxsize=4096)
def _canonicals(options: tuple[str, ...]) -> list[str]:
    return [_canonical(option) for option in options]
