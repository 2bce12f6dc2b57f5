"""One spelling for an answer written in LaTeX or plain text: rewriting rules, no mathematics.

Words keep their place as "⟦words⟧", so that units and remarks can be told from formulas.
"""

import re

CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": r"\cdot ", "·": r"\cdot ", "÷": "/", "∕": "/",
        "∞": r"\infty ", "π": r"\pi ", "√": r"\sqrt ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
        "≤": r"\le ", "≥": r"\ge ", "≠": r"\neq ", "±": r"\pm ", "≈": r"\approx ", "∀": r"\forall ",
        "²": "^2", "³": "^3", "⁴": "^4", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}",
        "º": "°", "˚": "°", "⟦": "", "⟧": "", "’": "'", "′": "'", "\u00a0": " ", "\u202f": " ",
        "€": "", "£": "", "¥": "", "₹": "", "％": "%", "`": "",
    }
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # fullwidth forms
)  # fmt: skip
# String escapes that replaced the backslash of a command: a tab and "ext" was \text.
EATEN = [
    (re.compile(r"\\?\x0c(?=rac)"), r"\\f"),
    (re.compile(r"\\?\x08(?=inom|oxed|egin|ar\b|ig)"), r"\\b"),
    (re.compile(r"\\?\t(?=ext|frac|imes|heta|an\b|o\b|au\b)"), r"\\t"),
    (re.compile(r"\\?\r(?=ight|angle|ho\b)"), r"\\r"),
]
TEXT = re.compile(
    r"\\(?:text|textbf|textit|textrm|textnormal|textsf|mbox|hbox|mathrm|mathbf|mathit|mathsf"
    r"|boldsymbol|bm|operatorname\*?|rm|bf|it)\s*\{([^{}]*)\}"
)
SPELLINGS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"<sup>(.*?)</sup>", r"^{\1}"),
        (r"<sub>(.*?)</sub>", r"_{\1}"),
        (r"\\(?:f?boxed?|ensuremath|underline|displaylines)\s*(?=\{)", ""),
        (r"\\\$|(?<!\\)\\[()\[\]]|\*\*(?=\S[^*]*\*\*)|(?<=[^*\s])\*\*$|^\*\*", ""),
        (r"\$", ""),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\(?:left|right|bigg?[lrm]?|Bigg?[lrm]?|middle)(?=\\?[^a-zA-Z]|\\[lr][a-z]+)\.?", ""),
        (r"\\(?:displaystyle|textstyle|limits|nolimits|bigl|bigr|rm|bf|it)(?![a-zA-Z])", ""),
        (r"(\d)\s*\{\s*,\s*\}\s*(?=\d{3})", r"\1,"),  # 14{,}916
        (r"(?<=\d),\s*\\[!,]\s*(?=\d{3})", ","),  # 32,\!348
        (r"(?<=\d)\\[,!]\s*(?=\d{3}(?!\d))", ""),  # 32\,348
        (r"(?<!\\)\\[!,;:>]|\\(?:q?quad|thinspace|enspace|nobreak|allowbreak)(?![a-zA-Z])", " "),
        (r"(?<!\\)\\ |~|\\h(?:space|skip)\*?\{[^{}]*\}", " "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\lbrack(?![a-zA-Z])", "["),
        (r"\\rbrack(?![a-zA-Z])", "]"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"\\(?:leqslant|leqq|leq)(?![a-zA-Z])|<=|=<", r"\\le "),
        (r"\\(?:geqslant|geqq|geq)(?![a-zA-Z])|>=|=>", r"\\ge "),
        (r"\\ne(?![a-zA-Z])|!=|\\not\s*=", r"\\neq "),
        (r"\\(?:mid|vert|lvert|rvert)(?![a-zA-Z])", "|"),
        (r"\\colon(?![a-zA-Z])", ":"),
        (r"\\div(?![a-zA-Z])", "/"),
        (r"\\(?:times|ast)(?![a-zA-Z])", r"\\cdot "),
        (r"\\(?:c?dots|ldots|dotsc|dotsb)(?![a-zA-Z])", "..."),
        (r"\\simeq(?![a-zA-Z])", r"\\approx "),
        (r"\^\s*$", ""),
        (r"\^\s*\{?\s*(?:\\circ|\\degree|\\textcirc|°)\s*\}?|\\degree(?![a-zA-Z])|\\textdegree",
         "°"),
        (r"(?<=\d)\s*-?\s*degrees?\b", "°"),
        (r"°\s*(?:⟦\s*)?[CF](?![a-zA-Z])(?:\s*⟧)?", "°"),
        (r"\\%|\s*\b(?:percentage|percent|pct)\b", "%"),
        (r"\\begin\{(?:[bBpvV]?matrix|smallmatrix|array)\}(?:\{[clr|\s]*\})?",
         lambda m: m.group() if "v" in m.group().lower() else r"\begin{pmatrix}"),
        (r"\\end\{(?:[bBp]?matrix|smallmatrix|array)\}", r"\\end{pmatrix}"),
        (r"\\\\\s*(?=\\end\{)", ""),
        (r"\bnp\.|\bmath\.", r"\\"),
        (r"\\arc(?=sinh|cosh|tanh)", r"\\ar"),
        (r"\*\*", "^"),
        (r"\*", r"\\cdot "),
        (r"(?<![a-zA-Z\\])(sqrt|arcsin|arccos|arctan|sin|cos|tan|sec|csc|cot|ln|log|exp|pi)"
         r"(?![a-zA-Z])", r"\\\1 "),
        (r"(?<![a-zA-Z\\])(?:infinity|infty|inf|oo)(?![a-zA-Z])", r"\\infty "),
        (r"\+\s*(?=\\infty)", ""),
        (r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"\\sqrt\s*([0-9a-zA-Z])", r"\\sqrt{\1}"),
        (r"\\frac\s*([0-9a-zA-Z])\s*([0-9a-zA-Z])", r"\\frac{\1}{\2}"),
        (r"\\frac\s*([0-9a-zA-Z])\s*(?=\{)", r"\\frac{\1}"),
        (r"\\frac\s*(\\[a-zA-Z]+)\s*([0-9a-zA-Z])(?![a-zA-Z])", r"\\frac{\1}{\2}"),
        (r"(\\frac\s*\{[^{}]*\})\s*([0-9a-zA-Z])", r"\1{\2}"),
        (r"\\frac\s+", r"\\frac"),
        (r"(\\frac\{[^{}]*\})\s+(?=\{)", r"\1"),
        (r"([\^_])\s*\{\s*([0-9a-zA-Z])\s*\}", r"\1\2"),
    )
]  # fmt: skip
AND_OR = re.compile(
    r"[,;\s]*⟦[\s,;]*(?:and|or)[\s,;]*⟧[,;\s]*|[,;]?\s*(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z])(?![^⟦⟧]*⟧)\s*"
    r"|(?<=[\d)}\]])or(?=[A-Z])"
)
TWO_LETTER_UNITS = r"cm|mm|km|kg|mg|ft|lb|oz|hr|yd|ml|mL|in|cc|am|pm"
WORD_UNITS = (
    rf"(?>(?:{TWO_LETTER_UNITS}|(?:day|min|sec|cup|way|men|mph|hrs|lbs|yen|won)s?|[a-z]{{4,}})"
    r"(?![a-zA-Z]))"
)
# A unit in plain letters: only after a number, so that products of variables stay.
UNIT = re.compile(
    rf"(?<![a-zA-Z\\])([-+]?(?:[\d.,]*\d|\\frac\{{\d+\}}\{{\d+\}})(?:/\d+)?|\}}|\\pi)"
    rf"(?:\s+{WORD_UNITS}(?:(?:\s+|/){WORD_UNITS}|/[hs])*|(?:{TWO_LETTER_UNITS})|m(?=\^[23]))"
    rf"(?:\^\{{?[23]\}}?)?\s*(?=$|[,;)])"
)
MIXED = re.compile(
    r"(?<![\w.}^_/)\]])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}|(?<![\w.}^_/)\]])(\d+)\s+(\d+)/(\d+)(?!\d)"
)
APPLIED = re.compile(
    r"\\(sin|cos|tan|cot|sec|csc|ln|log)\s*((?:\^\{?-?\w+\}?)?)\s*([a-zA-Z]|\\[a-z]+)"
    r"(?=\s*(?:\\cdot|\\(?:sin|cos|tan|cot|sec|csc|ln|log)))"
)


def clean(text: str) -> str:
    """Return `text` in one spelling. "x = \\dfrac12\\text{ cm}." -> "x = \\frac{1}{2}⟦ cm⟧".

    Unified: Unicode signs, dollars and other math delimiters, sizes, spaces, fraction and root
    shorthands, relation signs, matrix environments, Python forms (np.arcsin, **), degrees (°),
    percent (%), "and"/"or" (a comma), units after a number, mixed numbers (1 1/2 is a sum).
    """
    for pattern, replacement in EATEN:
        text = pattern.sub(replacement, text)
    if "\\\\" in text and "\\begin" not in text:
        text = re.sub(r"\\\\(?=[a-zA-Z(\[{])", r"\\", text)  # a doubled escape, no new row
    text = text.translate(CHARACTERS).strip()
    for _ in range(3):  # nested as in \text{\textbf{(C)}}
        text, count = TEXT.subn(_words, text)
        if not count:
            break
    for pattern, replacement in SPELLINGS:
        text = pattern.sub(replacement, text)
    text = AND_OR.sub(", ", text)
    text = UNIT.sub(r"\1 ", text)
    text = MIXED.sub(_sum, text)
    text = re.sub(r"^-\s*(?=\(\d+\+\\frac)", "-", text)
    text = APPLIED.sub(r"\\\1\2(\3)", text)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"(?:,\s*)+(?=,|$)", "", text).strip(" ,;").removesuffix(".").strip()


def squash(text: str) -> str:
    """Return `text` without spaces, except for those that end a command before a letter."""
    text = re.sub(r"(\\[a-zA-Z]+) (?=[a-zA-Z])", "\\1\x01", text)
    return text.replace(" ", "").replace("\x01", " ")


def words(text: str) -> str:
    """Return the letters and digits of `text` in lower case; a single one keeps its case."""
    text = re.sub(r"\\[a-zA-Z]+", "", text)
    letters = "".join(character for character in text if character.isalnum())
    return letters if len(letters) == 1 else letters.lower()


def _words(match: re.Match) -> str:
    inside = match.group(1)
    bare = inside.strip()
    if inside.startswith("⟦") or not bare:
        return inside
    if re.fullmatch(r"[A-Z](?:\s*,\s*[A-Z])+", bare):
        return inside
    if bare in ("%", "percent", "pct"):
        return "%"
    if bare in ("degrees", "degree", "°"):
        return "°"
    if match.group(0).startswith((r"\mathrm", r"\mathbf", r"\mathit", r"\boldsymbol", r"\bm")):
        before = match.string[: match.start()].rstrip()
        unit = bare not in ("e", "i", "d") and before[-1:].isdigit()
        return f"⟦{inside}⟧" if (len(bare) > 1 and bare.isalpha()) or unit else f" {inside} "
    if match.group(0).startswith(r"\operatorname"):
        return f"\\{bare} "
    if bare in ("e", "i") or not any(map(str.isalpha, bare)):
        return f" {inside} "
    return f"⟦{inside}⟧"


def _sum(match: re.Match) -> str:
    whole, top, bottom = (group for group in match.groups() if group is not None)
    if int(top) >= int(bottom):
        return match.group()
    return f"({whole}+\\frac{{{top}}}{{{bottom}}})"
