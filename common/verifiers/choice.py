"""Verifier of multiple-choice answers: ARC, MMLU-Pro, GPQA.

The reference is JSON {"answer": "C", "options": [...]}. Letters follow the order of the options
(the first is A). docs/verifiers.md says where each of the CONVENTIONS looks for the letter;
mmlu_pro is that of TIGER-AI-Lab/MMLU-Pro's scripts. No letter is ever guessed.
"""

import json
import re
from functools import lru_cache

from common.errors import UserError, require
from common.types import Verdict
from common.verifiers.math.extract import TOKENS, after_thought, last_boxes, tagged

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LONGEST = 2000  # characters after a statement that are read
MOST_STATEMENTS = 20

FIRST_LEVEL = re.compile(r"answer is \(?([A-J])")  # any text may follow the letter
SECOND_LEVEL = re.compile(r"^.*[aA]nswer:\s*([A-J])", re.MULTILINE)
CONVENTIONS = ("ours", "mmlu_pro")

# "ours" reads a letter or an option's text: in a box, as the last line, or after a STATEMENT
# ("the answer is", "I choose"). The statement of "C is correct" is empty and stands before the C.
BEST = "(?:correct|right|best|final|chosen|selected|likely|my|richtige?|korrekte?)"
IS = (
    r"(?:is|ist|lautet|(?:must|should|would|will|(?:has|seems|appears|turns\sout)\sto)"
    r"(?:\s(?!not)\w+)?\sbe|est?|[èé]|adalah|هي)"
)
CORRECT = (
    rf"(?:\s{IS}\s(?:(?:the|an?|clearly|therefore|most)\s){{0,3}}(?:{BEST}|answer)\b"
    r"(?!(?:\s\w+)?,?\s(?:if|unless|and|but)\b)|\srichtig|(?:是|为)?正确"
    r"|\s(?:it\sis|remains|matches|fits(?:\sbest)?|seems\s(?:right|correct))\b(?=\W*$))"
)
WHY = r"(?:,?\s(?:because|since|as|for|rather|and\snot)\b|\s[—–]|\s\((?![A-Z]\)))"
STATEMENT = re.compile(
    rf"""(?imx)
    \b(?:(?:ans(?:wer)?|antwo(?:rt|ord)|r[ei]sp(?:ue|o)sta|réponse|jawaban(?:nya)?|ответ|الإجابة)
          (?:\s(?:choice|option|letter|corr?ec?tt?[ae]|الصحيحة))?
        |richtig|{BEST}\s(?:option|choice|letter|one|pick|guess))\b
      (?:'s\b|\s?[:=→–-]|(?:,?\s(?:to|for|of|that|here|then|therefore|I)\b[^.:(\n]{{0,80}}?)?\s{IS}\b)
    | ^(?:option|choice|letter|selected|selection|pick|correct|solution|lösung|conclusion)\s?[:=]
    | 答案 | 答え | 正解 | 정답 | 选项(?=[是为:]) | 选(?!项)
    | \b(?:(?:it|this|that|which)(?:'s|\s{IS})|matches|(?:corresponds|points)\sto
        |(?:left|going|end\sup)\swith|(?:eliminating\b[^.\n]{{1,60}}?|(?<!(?-i:\b[A-Z])\s))leaves(?:\sus\swith)?
        |(?:I|we)(?:'d|'ll|\swould|\swill)?\s(?:choose|pick|select|say|go\s(?:with|for))
        |(?:actually|sorry|no|wait|correction)[,:])
      (?=\W{{1,3}}(?:option\W{{1,2}})?(?-i:[A-Z])\b[)\]]?(?:[.:;!]|\W*$|{WHY}))
    | (?=(?-i:\(?(?<![A-Za-z])[A-Z]\)?){CORRECT})"""
)
UNREAL = re.compile(  # before a statement: a condition, a denial, another letter
    r"(?i)(?:\b(?:if|whether|suppose|assum\w+|n?either|not|none|might|could|wrong|incorrect|why)|n't)\b"
    r"(?![^.,;:\n]*\bbut\b)[^.,;:\n]*$|\b(?:or|and)\s(?:option\s)?$"
)
LEAD = (
    r"(?i:(?:so|therefore|thus|hence|then|clearly|indeed|definitely|probably|(?:most\s)?likely|"
    r"approximately|answer|option|choice|letter|select|pick|la|not\s[(]?[A-Z][)]?,?\sbut|是|为|选|项|择|は|은)?"
    r"[\s:,=>→–-]{0,3}){0,4}[(\[<]?\s?"
)
LABEL = re.compile(rf"{LEAD}([A-Za-z])(?:です|입니다)?\b\s?[)\]>.:,\s–-]*")
SEVERAL = re.compile(  # after a statement: a denial, a condition, another letter
    rf"{LEAD}(?:(?i:not|n?either|both|none|cannot)\b|([A-Z])(?![A-Za-z\d])[)\]]?,?\s?(?:(?:only\s)?(?:"
    r"if|unless|or|oder)\b|(?:[,/&;或和、]|and\b|(?=\())[\s(]{0,2}(?:and[\s(]{1,2})?(?!\1|I\s[a-z])"
    r"[A-Z]\b))"
)
DOUBT = re.compile(  # after a letter
    r"(?i)\b(?:wait|scratch that|on second thought|but no|actually not|reconsider|also correct"
    r"|that(?:'s| is) (?:wrong|(?:in|not )correct))\b"
)
# What ends an answer. "C1: ..." is option C, as for MMLU-Pro's script.
END = re.compile(
    rf"\d:|[.;!:,。…](?![A-Za-z\d?])|(?<=[A-Z])[)\]>](?!\?|\s(?:is|was)\b)|{WHY}|{CORRECT}"
)
NEXT = re.compile(r"\s(?:Question|Q)\s?\d{0,3}:")  # a base model goes on with another one
TWO_BOXES = re.compile(r"\}[\s$]*(?:or|and|[,/&])[\s$]*\\f?box(?:ed)?\s?\{[^{}]*\}\W*$")
FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
MARKUP = re.compile(
    r"\\(?:text[a-z]{0,2}|math[a-z]{2}|f?box(?:ed)?|[()\[\],;! ])|[{}$*_`\"“”「」【】]"
    r"|\B['‘]|['’]\B"
)


def verify(
    response: str, reference: str, *, convention: str = "ours", opened: bool = False
) -> Verdict:
    """Return the verdict on the letter that `convention` finds in `response`, its `parsed`.
    `opened`: the prompt ends in <think>, and a response that never closes it names no option.
    Raises UserError for a bad reference or an unknown convention."""
    require(convention in CONVENTIONS, "convention", convention, f"one of {[*CONVENTIONS]}")
    gold, options = _parse(reference)
    response = response if not opened or "</think>" in response else ""
    if convention == "ours":
        letter = _ours(response, options)
    else:
        match = FIRST_LEVEL.search(response) or SECOND_LEVEL.search(response)
        letter = match and match[1]
    if not letter or letter not in LETTERS[: len(options)]:
        said = f"{letter} is beyond the {len(options)} options" if letter else "names no option"
        return Verdict("unparsed", 0.0, reason=said)
    if letter != gold:
        return Verdict("wrong", 0.0, letter, f"{letter}, not {gold}")
    return Verdict("correct", 1.0, letter)


def reference(row: dict) -> str:
    """Return the letter and the options of a row as JSON, from `answer` (in a case row: `gold`) and
    `options` (in ARC and GPQA: `choices`). Where `answer_index` contradicts the letter (MMLU-Pro
    3983), the letter counts, as in the authors' script. Raises UserError for a bad row."""
    options = row.get("options") or row.get("choices")
    made = json.dumps({"answer": row.get("answer") or row.get("gold"), "options": options})
    _parse(made, f"row {row.get('id')}: ")
    return made


def example(reference: str) -> str:
    gold, _ = _parse(reference)
    return f"The answer is ({gold}).\n\\boxed{{{gold}}}"


@lru_cache(maxsize=4096)
def _parse(reference: str, where: str = "") -> tuple[str, list[str]]:
    try:
        fields = json.loads(reference)
        answer, options = fields["answer"], fields["options"]
    except (ValueError, TypeError, KeyError) as error:
        said = f"reference={reference[:80]}: must be JSON with answer (a letter) and options"
        raise UserError(said) from error
    sound = isinstance(options, list) and 0 < len(options) <= len(LETTERS)
    sound = sound and all(isinstance(one, str) and one.strip() for one in options)
    require(sound, f"{where}options", str(options)[:80], f"give 1 to {len(LETTERS)} texts")
    known = LETTERS[: len(options)]
    require(answer in [*known], f"{where}answer", str(answer)[:80], f"give a letter of {known}")
    return answer, options


def _ours(response: str, options: list[str]) -> str | None:
    text = TOKENS.sub(" ", after_thought(response)).translate(FULL_WIDTH)
    text = tagged(text) or text
    boxes = last_boxes(text)
    if boxes == [] or TWO_BOXES.search(text[-LONGEST:]):  # [] if the response breaks off in a box
        return None
    if "<think>" in text or "<answer>" in text.rpartition("</answer>")[2]:  # a box counts alone
        text = ""
    texts, box = [_plain(option) for option in options], _plain(boxes[-1] if boxes else "")
    boxed, said = _read(box, texts), _said(text, texts)
    return (boxed or said) if LABEL.match(box) else (said or boxed)


def _said(text: str, texts: list[str]) -> str | None:
    """Return the letter of the option that the last line is, unless the line before is another;
    else that of the last readable statement, or None if it names no option."""
    text = "\n".join(_plain(line) for line in text.splitlines() if re.search(r"\w", line))
    first = STATEMENT.search(text)
    if first and (question := NEXT.search(text, first.end())):
        text = text[: question.start()]
    letters = [_option(line, texts) for line in text.split("\n")[-2:]]
    if letters[-1] and letters[0] in (None, letters[-1]):
        return letters[-1]
    for match in [*STATEMENT.finditer(text)][-MOST_STATEMENTS:][::-1]:
        if not UNREAL.search(text[max(0, match.start() - 40) : match.start()]):
            rest = text[match.end() : match.end() + LONGEST].lstrip("\n :").partition("\n")[0]
            if (letter := _read(rest, texts)) is not None:
                return None if DOUBT.search(text, match.end()) else letter
    return None


def _read(text: str, texts: list[str]) -> str | None:
    """Return the letter of the option that `text` is or explains; "" for several or a denial."""
    if letter := _option(text, texts):
        return letter
    return "" if SEVERAL.match(text) else _option(END.split(text, 1)[0], texts)


def _option(text: str, texts: list[str]) -> str | None:
    same = [at for at, own in enumerate(texts) if text and own.casefold() == text.casefold()]
    label = LABEL.match(text)
    if label and (label[1].isupper() or len(same) != 1):
        at, said = LETTERS.index(label[1].upper()), text[label.end() :].casefold()
        if not said or (at < len(texts) and said == texts[at].casefold()):
            return LETTERS[at]
    return LETTERS[same[0]] if len(same) == 1 else None


def _plain(text: str) -> str:
    return " ".join(MARKUP.sub("", text).split()).strip(".…!#=→∴ ")
