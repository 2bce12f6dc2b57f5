"""The parts of an answer: lists, sets, tuples, intervals, relations, names before "="."""

import re
from dataclasses import dataclass, replace

from common.verifiers.math.guard import depths
from common.verifiers.math.text import squash, words
from common.verifiers.math.value import Number, number

MOST_PARTS = 64
LETTER = r"(?:\\[a-zA-Z]+|[a-zA-Z])"
SUBSCRIPT = r"(?:_(?:\{[^{}]*\}|\w)|\^\{?\\?(?:prime|')\}?|'+)?"
VARIABLE = re.compile(rf"\s*{LETTER}{SUBSCRIPT}(?:\([a-zA-Z]\))?\s*")
MEMBER = re.compile(
    rf"({VARIABLE.pattern}|\([^()]*\))\\in(?![a-zA-Z])(?!\s*(?:\\mathbb|[A-Z]\s*$))(.*)"
)
COLUMN = re.compile(r"\\begin\{pmatrix\}((?:(?!\\begin).)*)\\end\{pmatrix\}", re.DOTALL)
# The left side of "name = value": letters, subscripts, ratios, brackets, but no sum or number.
NAME = re.compile(
    r"(?:\\[a-zA-Z]+(?![a-zA-Z])|[a-zA-Z|():/,<>' ]|⟦[^⟦⟧]*⟧|_\{[^{}]*\}|_\w|[{}]|\^\*)+"
)
RELATION = re.compile(r"\\(?:le|ge|neq)(?![a-zA-Z])|[<>]")
TURNED = {">": "<", "\\ge": "\\le"}
ENDS = {"<": "()", "\\le": "[]", "\\neq": "()"}
REALS = re.compile(
    rf"(?:{LETTER}\s*\\in\s*)?(?:\\(?:mathbb|mathbf|Bbb)\s*\{{?R\}}?|(?i:[\s⟦]*"
    r"(?:the set of (?:all )?|all )reals?(?: numbers?| values?)?(?: of| for)?[\s⟧]*[a-z]?[\s⟧]*))"
)
ABSOLUTE = re.compile(rf"\s*\|\s*(\d*)\s*({LETTER})\s*([-+][^|]*)?\|\s*")
CONGRUENCE = re.compile(r"(?:(.+?)\\equiv)?(.+?)\\bmod(?![a-z])(.+)")
POINT = re.compile(r"([A-Z]'*)\s*(\([^()]*,.*\))")
ROWS = re.compile(r"\[\s*(\[[^][]*\](?:\s*,\s*\[[^][]*\])*)\s*\]")
SCALED = re.compile(r"([^&=,;]*?[^&=,;\s])\s*(?:\\cdot\s*)?" + COLUMN.pattern, re.DOTALL)
DENIED = "not|never|undefined|extraneous|excluded|impossible|invalid|rejected|wrong"
# Words that change the number beside them in a way that no rule of text.py knows.
CHANGED = re.compile(
    r"⟦[^⟦⟧]*\b(?:at least|at most|no|or (?:more|less|fewer|greater)|over|under|up to"
    r"|(?:more|less|fewer|greater|smaller|larger) than|exceeds?|between|below|above|almost|nearly"
    r"|negative|minus|half|halves|thirds?|quarters?|tenths?|(?:hundred|thousand)ths?|squared|cubed"
    r"|multiples?|but|except|base|mod|root|twice|double|triple|factorial|reciprocal|than|by|unless"
    rf"|plus|equal|{DENIED})\b"
    r"|(?:ends? in|at)\s*⟧"
    r"|(?<!total )of\s*⟧|⟦[^⟦⟧]*[以上下多余至少不倍半负大小超]"
)
# After the first words of a remark: other words that join a further value.
MORE = r".*?(?:\b(?:and|or|but|while)\b|[,;])[^⟦⟧]*⟧[^⟦⟧<>,;_]*\d"
CLOCK = re.compile(r"[⟦\s]*(\d{1,2}):(\d\d)(?::(\d\d))?[⟦\s]*(?:([apAP])\.?\s*[mM]\.?)?[\s⟧]*")


@dataclass(frozen=True)
class Shape:
    """An answer split into its parts. `kind` is value (text), many (parts in any order), tuple
    (parts in order, between brackets) or words; `name` is what stood before "="."""

    kind: str
    text: str = ""
    parts: tuple = ()
    brackets: str = ""
    name: str = ""


def shape(text: str, depth: int = 0) -> Shape:
    text = re.sub(r"(?<!\.)\.$", "", text.strip()).strip()
    if depth > 6 or number(text) or CLOCK.fullmatch(text):
        return Shape("value", text)
    text = re.sub(r"(?<=\S)\s*⟦\s*(?:where|such)\b.*", "", text)
    said = rf"(?<=\S)\s*⟦\s*(?:is|are)\b(?!{MORE}).*"
    text = re.sub(said, lambda match: match[0] if re.search(DENIED, match[0]) else "", text)
    if REALS.fullmatch(text):
        return _interval("", "-\\infty", "\\infty", "()")
    for separators in (";", ","):
        parts = split(text, separators)
        if len(parts) > 1 and len(parts) <= MOST_PARTS:
            return _many([shape(part, depth + 1) for part in parts])
    if "⟦" in text and len(sides := re.split(r"=(?![^⟦⟧]*⟧)", text)) > 1:
        bare = [re.sub(r"⟦[^⟦⟧]*⟧|\\[a-zA-Z]+", "", side) for side in sides[:-1]]
        numeric = not re.search("[a-zA-Z]", "".join(bare))
        if numeric or all(NAME.fullmatch(side) for side in sides[:-1]):
            return _named(sides, depth)
    text = _without_remarks(text)
    if len(split(text, ",")) > 1:
        return shape(text, depth + 1)
    braces = text.startswith("\\{") and text.endswith("\\}") and "emptyset" not in text
    if braces and _encloses(text[1:-2] + "}"):
        inner = text[2:-2]
        inner = re.sub(r"\\in\s*\\mathbb\{?R\}?(?=\s*[|:])", "", inner)
        condition = re.split(r"\||(?<=\w)\s*:", inner, maxsplit=1)
        if len(condition) == 2 and VARIABLE.fullmatch(condition[0]):
            return shape(condition[1], depth + 1)
        member = shape(inner, depth + 1)
        parts = (member,) if member.kind != "many" and member.brackets != "=" else member.parts
        return Shape("many", parts=parts, brackets="{}")
    if len(parts := re.split(r"\\cup(?![a-zA-Z])", text)) > 1:
        return _union([shape(part, depth + 1) for part in parts])
    if match := MEMBER.fullmatch(text):
        return replace(shape(match[2], depth + 1), name=match[1].strip())
    if "\\pm" in text and len(re.findall(r"\\[pm][pm](?![a-zA-Z])", text)) <= 2:
        upper = text.replace("\\pm", "+").replace("\\mp", "-")
        lower = text.replace("\\pm", "-").replace("\\mp", "+")
        return _many([shape(upper, depth + 1), shape(lower, depth + 1)])
    if (region := _region(text)) is not None:
        return replace(region, text=text)
    if match := CONGRUENCE.fullmatch(text):
        residue, modulus = match[2].strip(), match[3].strip()
        if residue.removeprefix("-").isdigit() and modulus.isdigit() and int(modulus):
            residue = str(int(residue) % int(modulus))
        parts = (shape(residue, depth + 1), shape(modulus, depth + 1))
        return Shape("tuple", parts=parts, brackets="≡≡", name=(match[1] or "").strip())
    if len(sides := _equation(text)) > 1:
        return _named(sides, depth)
    if len(ratio := split(text, ":")) > 2:  # 2:4:6 is 1:2:3
        parts = tuple(shape(rf"\frac{{{part}}}{{{ratio[0]}}}", depth + 1) for part in ratio[1:])
        return Shape("tuple", parts=parts, brackets="::")
    if match := POINT.fullmatch(text):
        return replace(shape(match[2], depth + 1), name=match[1])
    if match := ROWS.fullmatch(text):
        rows = "\\\\".join(row.replace(",", "&") for row in re.findall(r"\[([^][]*)\]", match[1]))
        text = rf"\begin{{pmatrix}}{rows}\end{{pmatrix}}"
    if match := SCALED.fullmatch(text):
        cells = re.split(r"(&|\\\\)", match[2])
        cells[::2] = [rf"({match[1]})\cdot({cell.strip()})" for cell in cells[::2]]
        text = rf"\begin{{pmatrix}}{''.join(cells)}\end{{pmatrix}}"
    opening, closing = text[:1], text[-1:]
    if opening in "([" and closing in ")]" and _encloses(text):
        inner = split(text[1:-1], ",;")
        if len(inner) > 1:
            parts = tuple(shape(part, depth + 1) for part in inner[:MOST_PARTS])
            return Shape("tuple", parts=parts, brackets=opening + closing)
        if opening + closing == "()":
            return shape(text[1:-1], depth + 1)
    if opening == "{" and closing == "}" and _encloses(text):
        return shape(text[1:-1], depth + 1)
    if match := COLUMN.fullmatch(text):
        cells = re.split(r"\\\\" if "\\\\" in match[1] else "&", match[1])
        if len(cells) > 1 and not ("&" in match[1] and "\\\\" in match[1]):
            return Shape("tuple", parts=tuple(shape(c, depth + 1) for c in cells), brackets="||")
    return Shape("words" if "⟦" in text else "value", text)


def split(text: str, separators: str) -> list[str]:
    """Return `text` split at the separators outside brackets, without empty parts. The commas of
    1,234 separate nothing, unless it is the whole text: the 312,123,231 of a tuple is three
    numbers."""
    parts, depth, start, grouped = [], 0, 0, set()
    for match in re.finditer(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", text):
        if match.group() != text.strip():
            grouped.update(range(match.start(), match.end()))
    for at, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character in separators and depth <= 0 and at not in grouped:
            parts.append(text[start:at])
            start, depth = at + 1, 0
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _many(parts: list[Shape]) -> Shape:
    flat = []
    for part in parts:
        flat.extend(part.parts if part.kind == "many" and not part.name else [part])
    names = [part.name for part in flat]
    if all(VARIABLE.fullmatch(name) for name in names) and len(set(names)) == len(names):
        flat.sort(key=lambda part: part.name if set(names) <= set("xyz") else "")  # as in (1, 2)
        return Shape("tuple", parts=tuple(flat), brackets="=")  # x = 1, y = 2
    return Shape("many", parts=tuple(flat))


def _union(parts: list[Shape]) -> Shape:
    """Return the union of sets, with touching intervals joined."""
    merged = parts[:1]
    for part in parts[1:]:
        last = merged[-1]
        if (
            all(len(one.parts) == 2 and one.kind == "tuple" for one in (last, part))
            and (last.brackets[1] == "]" or part.brackets[0] == "[")
            and written(last.parts[1]) == written(part.parts[0])
        ):
            ends = (last.parts[0], part.parts[1])
            merged[-1] = replace(last, parts=ends, brackets=last.brackets[0] + part.brackets[1])
        else:
            merged.append(part)
    return merged[0] if len(merged) == 1 else _many(merged)


def _named(sides: list[str], depth: int) -> Shape:
    *names, value = sides
    if VARIABLE.fullmatch(value) and not re.search(r"[a-zA-Z]", names[-1]):
        names, value = [value], names[-1]  # 5 = x
    if NAME.fullmatch(names[0]) and re.search("[a-zA-Z⟦]", names[0]):
        return replace(shape(value, depth + 1), name=names[0].strip())
    if not re.search(r"[a-zA-Z]", re.sub(r"⟦[^⟦⟧]*⟧|\\[a-zA-Z]+", "", names[0] + value)):
        return shape(value, depth + 1)  # a chain of numbers: 1/2 + 1/2 = 1
    return Shape("value", "=".join(sides))


def _equation(text: str) -> list[str]:
    """Return the sides of "a = b = c". "name: value" is an equation; approximations are dropped."""
    if match := re.fullmatch(r"\s*([A-Za-z]{2,}|⟦[^⟦⟧]*⟧)\s*:\s*(.+)", text):
        return [match[1].replace(":", ""), match[2]]
    text = re.split(r"\\approx(?![a-zA-Z])", text)
    text = text[0] if re.search(r"\d|=", text[0]) else text[-1]
    return split(text, "=") or [text]


def _region(text: str) -> Shape | None:
    r"""Return the interval of "x < 3" or "1 \le x < 3", or the two of "x \neq 3"; else None."""
    sides, signs = RELATION.split(text), [match.group() for match in RELATION.finditer(text)]
    if not signs or len(signs) > 2 or any(not side.strip() for side in sides):
        return None
    if TURNED.keys() & signs:  # x > 3 is 3 < x
        sides, signs = sides[::-1], [TURNED.get(sign, "") for sign in signs[::-1]]
    if not all(sign in ENDS for sign in signs):
        return None
    opening, closing = ENDS[signs[0]][0], ENDS[signs[-1]][1]
    if len(signs) == 2:
        if not VARIABLE.fullmatch(sides[1]) or "\\neq" in signs:
            return None
        return _interval(sides[1], sides[0], sides[2], opening + closing)
    below = any(pattern.fullmatch(sides[0]) for pattern in (VARIABLE, ABSOLUTE))  # x < 3
    name, end = sides if below else sides[::-1]
    low = high = end
    if (match := ABSOLUTE.fullmatch(name)) and signs[0] != "\\neq":  # |2x - 1| < 3
        factor, name, centre = match[1] or "1", match[2], f"-({match[3] or 0})"
        low, high = (rf"\frac{{{centre}{way}({end})}}{{{factor}}}" for way in "-+")
        if factor == "1" and not match[3]:
            low, high = f"-{end.strip()}", end
        if below:
            return _interval(name, low, high, opening + closing)
    elif not VARIABLE.fullmatch(name):
        return None
    elif signs[0] != "\\neq":
        ends = ("-\\infty", end, "(" + closing) if below else (end, "\\infty", opening + ")")
        return _interval(name, *ends)
    left = _interval(name, "-\\infty", low, "(" + closing)
    return Shape("many", parts=(left, _interval(name, high, "\\infty", opening + ")")))


def _interval(name: str, low: str, high: str, brackets: str) -> Shape:
    ends = (Shape("value", low.strip()), Shape("value", high.strip()))
    return Shape("tuple", parts=ends, brackets=brackets, name=name.strip())


def is_words(text: str) -> bool:
    """Return whether `text` has a word of at least four letters that is no LaTeX command."""
    return re.search(r"(?<![\\a-zA-Z{])[A-Za-z]{4,}", text) is not None


def _without_remarks(text: str) -> str:
    """Return `text` without units and remarks in words, and without all from a "for", "when", "if"
    or the like on. Other words between formulas become commas. A text of words alone stays."""
    if "⟦" not in text or CHANGED.search(text):
        return text
    formula = re.sub(rf"⟦\s*(?:for|when|if|with|since|because|as)\b(?!{MORE}).*", "", text)
    power = r"\s*(?:\^\{?-?[1-4]\}?|(?:/|\\cdot)\s*⟦[^⟦⟧]*⟧)*"
    formula = re.sub(rf"⟦[^⟦⟧]*⟧{power}", " ⟦ ", formula).strip("⟦ .,:;")
    if not re.search(r"[\w)}\]|°%!]", formula):
        return text
    return re.sub(r"[\s,]*(?:⟦\s*)+[\s,]*", ", ", formula)


def _encloses(text: str) -> bool:
    after = depths(text)[1:]
    return 0 in after and after.index(0) == len(text) - 1


def canonical(text: str) -> str:
    """Return a short text that is the same for the most common spellings of a cleaned answer:
    numbers as reduced fractions, lists sorted, spaces and names dropped."""
    return written(shape(text))[:200]


def written(one: Shape) -> str:
    if one.kind == "many":
        return "{" + ",".join(sorted({written(part) for part in one.parts})) + "}"
    if one.kind == "tuple":
        inner = ",".join(written(part) for part in one.parts)
        brackets = one.brackets if len(one.brackets) == 2 else "()"
        return f"{brackets[0]}{inner}{brackets[1]}"
    if one.kind == "words" or is_words(one.text):
        return words(one.text)
    text = one.text.replace("°", "").replace("%", "")
    value: Number | None = number(text)
    return str(value.value) if value else squash(text)
