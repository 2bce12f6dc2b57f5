"""One spelling for an answer written in LaTeX or plain text: rewriting rules, no mathematics.

Words keep their place as "⟦words⟧", so that units and remarks can be told from formulas.
"""

import re
from fractions import Fraction
from math import prod
from unicodedata import normalize

UNITS = {
    name: names.split()[0]
    for names in (
        "meter metre m", "kilometer kilometre km", "centimeter centimetre cm", "millimeter mm",
        "mile mi", "foot feet ft", "inch inche in", "yard yd", "second sec s", "minute min",
        "hour hr h", "day", "week", "month", "year yr", "gram g", "kilogram kg", "milligram mg",
        "pound lb", "ounce oz", "liter litre l", "milliliter ml", "dollar", "cent", "newton n",
        "joule j", "watt w", "volt v", "kelvin k", "mole mol", "hertz hz", "pascal pa", "celsius c",
        "fahrenheit f", "ton", "euro", "yen", "rupee",
    )
    for name in names.split()
}  # fmt: skip
UNITS = {f"{of}{u}": of + UNITS[u] for of in "kn" for u in (*"mslnjwv", "pa", "hz")} | UNITS
UNITS |= {"square": "2", "sq": "2", "squared": "2", "cubic": "3", "cubed": "3"}
EMPTY = re.compile("an?|the|is|are|of|for|to|if|and|or|so|be|we|with|that|this|its?|by|on|per")
SHORT_FOR = {"mph": "mile hour", "kmh": "kilometer hour", "kph": "kilometer hour"}
CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": r"\cdot ", "·": r"\cdot ", "÷": "/", "∕": "/",
        "∞": r"\infty ", "π": r"\pi ", "√": r"\sqrt ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
        "≤": r"\le ", "≥": r"\ge ", "≠": r"\neq ", "±": r"\pm ", "≈": r"\approx ", "∀": r"\forall ",
        "²": "^2", "³": "^3", "⁴": "^4", "⁄": "/", "º": "°", "˚": "°", "⟦": "", "⟧": "", "’": "'",
        "′": "'", "\u00a0": " ", "\u202f": " ", "％": "%", "`": "", "⟨": "(", "⟩": ")",
        "≡": r"\equiv ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}",
    }
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # fullwidth forms
    | {one: f"_{normalize('NFKC', one)}" for one in "₀₁₂₃₄₅₆₇₈₉ₙ"}
    | {one: rf"\frac{{{normalize('NFKC', one).replace('⁄', '}{')}}}" for one in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
)  # fmt: skip
# String escapes that replaced the backslash of a command: a tab and "ext" was \text.
EATEN = re.compile(r"\\?([\f\b\t\r])(?=f?rac|inom|oxed|egin|ext|imes|heta|ight|angle|a[nur]\b)")
RAISED = re.compile("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]{2,}|[⁰¹⁵⁶⁷⁸⁹]")
TEXT = re.compile(
    r"\\(?:text(?:bf|it|rm|normal|sf|tt|sc)?|[mh]box|math(?:rm|bf(?!\{R\})|it|sf|tt|cal|scr|op)"
    r"|emph|unit|si|boldsymbol|bm|operatorname\*?|rm|bf|it)\s*\{([^{}]*)\}"
)
# What words stand for where an argument follows; min and sec are units after a number.
FUNCTIONS = re.compile(
    "(?:arc)?(?:sin|cos|tan)h?|cot|sec|csc|ln|log|lg|exp|sqrt|max|min|sup|inf|lim|gcd|lcm|floor|ceil"
    "|round|abs|det|dim|Re|Im|arg|sgn|sign|erf|tr"
)
CONDITION = re.compile(r"⟦\s*(?:for|when|if|where)\b[^⟦⟧]*⟧(.*(?:[<>]|\\(?:le|ge|neq)(?![a-z])).*)")
# A number in words, but for the power of a unit (cm^2, m2).
COUNT = re.compile(r"(?<![\^\d.,])(?<!\^[-{])(?<!\^\{-)(?<!m)\d(?:[\d.,]*\d)?")
ROWS = re.compile(
    r"(?s)(?:\\left\s*\\\{\s*)?\\begin\{((?:align|equation|gather|split|multline|cases|array)[\w*]*)"
    r"\}(?:\{[clr|\s]*\})?(.*?)\\end\{\1\}(?:\s*\\right\s*\.)?"
)
COMMANDS = {
    command: spelling
    for spelling, commands in {
        "<": "lt", ">": "gt", "(": "langle", ")": "rangle", "[": "lbrack", "]": "rbrack",
        r"\{": "lbrace", r"\}": "rbrace", "|": "mid vert lvert rvert", "/": "div", ":": "colon",
        r"\le ": "leqslant leqq leq", r"\ge ": "geqslant geqq geq", r"\neq ": "ne",
        r"\cdot ": "times ast", r"\approx ": "simeq", r"\emptyset ": "varnothing",
        "...": "cdots dots ldots dotsc dotsb", r"\tan ": "tg", r"\cot ": "ctg", r"\arctan ": "arctg"
    }.items()
    for command in commands.split()
}  # fmt: skip
UNIT_TEXT = r"((?:\\(?:text|mathrm|rm|mbox)\s*\{[^{}]*\}|\\cdot|\^\{?\d\}?|\s)+)"
COMPOSITE = re.compile(
    rf"(\d(?:\\[ ,;!]|[~\s])*)\\[dt]?frac\s*\{{{UNIT_TEXT}\}}\s*\{{{UNIT_TEXT}\}}"
)
BRACKETED = r"([\^_]|\\sqrt(?:\[3\])?)\s*\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
SMALL = (SMALL + " fifteen sixteen seventeen eighteen nineteen twenty").split()
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
SCALES |= {"dozen": 12, "lakh": 10**5, "crore": 10**7}
SCALES |= {"百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
CURRENCIES = {"¤": "dollars", "€": "euros", "£": "pounds", "¥": "yen", "₹": "rupees"}
VALUE = r"(?:\d[\d,]*(?:\.\d+)?|\\frac\{\d+\}\{\d+\})"
SCALE = rf"(?:{'|'.join(SCALES)})"
SPOKEN = rf"(?i:\b(?:{'|'.join(SMALL)})\b)"
TWO_LETTER_UNITS = r"cm|mm|km|kg|mg|ft|lb|oz|hr|yd|ml|mL|in|cc|am|pm"
WORD_UNITS = (
    rf"(?>(?:{TWO_LETTER_UNITS}|(?:day|min|sec|cup|way|men|mph|hrs|lbs|yen|won)s?|[a-z]{{4,}})"
    r"(?![a-zA-Z]))"
)
SPELLINGS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"<su([pb])>(.*?)</su\1>", lambda m: f"{'^_'[m[1] == 'b']}{{{m[2]}}}"),
        (r"\\(?:SI|qty)\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1⟦ \2⟧"),
        (r"\\(?:f?boxed?|Boxed|ensuremath|underline|displaylines|num)\s*(?=\{)"
         r"|\\(?:textcolor|color(?:box)?|tag|label)\s*\{[^{}]*\}"
         r"|\\(?:checkmark|(?:black)?square|Box|qed)(?![a-zA-Z])"
         r"|\A\s*\\(?:therefore|implies|Rightarrow)(?![a-zA-Z])", ""),
        (r"\\\$", "¤"),
        (r"(?<!\\)\\[()\[\]]|\*\*(?=\S[^*]*\*\*)|(?<=[^*\s])\*\*$|^\*\*", ""),
        (r"\$", ""),
        (r"\\(?:[dtcs]|nice)frac(?![a-zA-Z])", r"\\frac"),
        (r"\\(?:left|right|bigg?[lrm]?|Bigg?[lrm]?|middle)(?=\\?[^a-zA-Z]|\\[lr][a-z]+)\.?", ""),
        (r"\\(?:displaystyle|textstyle|limits|nolimits|bigl|bigr|rm|bf|it|tiny|small"
         r"|[lL]arge|LARGE|[hH]uge)(?![a-zA-Z])", ""),
        (r"(?<=\d)(?:\s*\{\s*,\s*\}|,\s*\\[!,])\s*(?=\d{3})", ","),  # 14{,}916 and 32,\!348
        (r"(?<!\\)\\[!,;:>]|\\(?:q?quad|thinspace|enspace|nobreak|allowbreak)(?![a-zA-Z])", " "),
        (r"(?<!\\)\\ |~|\\h(?:space|skip)\*?\{[^{}]*\}", " "),
        (rf"\\({'|'.join(COMMANDS)})(?![a-zA-Z])", lambda m: COMMANDS[m[1]]),
        (r"\\\{\s*\\\}|(?i:⟦\s*(?:(?:the )?empty set|no solutions?)\s*⟧|\A\s*no solutions?\Z)",
         r"\\emptyset "),
        (r"\{\s*([^{}]*?)\s*\\choose\s*([^{}]*?)\s*\}", r"\\binom{\1}{\2}"),
        (r"(?:\{([^{}]*)\}|(\w+))\s*\\choose\s*(?:\{([^{}]*)\}|(\w+))", r"\\binom{\1\2}{\3\4}"),
        (r"[(⟦\s]*(?:\\[pb]?|(?<![a-zA-Z\\]))mod(?![a-z])[\s⟧]*(?:\{([^{}]*)\}|(\w+))[\s)⟧]*",
         r" \\bmod \1\2"),
        (r"\\\\(?:\s*\\\\|\s*\[[\d.]+\s*[a-z]{2}\])+", r"\\\\"),  # doubled row breaks
        (r"(?:(?<=\\cup)|(?<![\w)\]}]))\s*\]([^][(),;]+[,;][^][(),;]+)(?=[][])", r"(\1"),  # ]1, 2[
        (r"(?<=[\[(])([^][(),;]+[,;][^][(),;]+)\[", r"\1)"),
        (r"(?<=\d)'(?=\d{3}(?!\d))|(?<=\d)\.(?=\d{3}(?:\.\d{3})+(?![\d.]))"
         r"|(?<=\d\.\d{3})\.(?=\d{3}(?![\d.]))", ""),  # 1'234, 1.234.567
        (r"(?<=\d\.)\((\d+)\)", r"\\overline{\1}"),  # 0.(3)
        (r"(?<=\d)\s+x\s+(?=10\s*\^)|⟦\s*times\s*⟧\s*(?=[\d(\\])", r"\\cdot "),
        (r"\+/-", r"\\pm "),
        (r"(\([^()]*,[^()]*\))\s*\^\s*(?:T|\\top|\{\s*(?:T|\\top)\s*\})(?![a-zA-Z])", r"\1"),
        (r"\\mathbb\s*\{?R\}?\s*(?:\\(?:setminus|backslash)|-)\s*\\\{([^{},\\]*)\\\}",
         r"x\\neq \1"),
        (r"<=|=<", r"\\le "),
        (r">=|=>", r"\\ge "),
        (r"!=|\\not\s*=", r"\\neq "),
        (r"\^\s*$|^\s*(?:\\approx(?![a-zA-Z])|=)", ""),
        (r"\^\s*\{?\s*(?:\\circ|\\degree|\\textcirc|°)\s*\}?|\\degree(?![a-zA-Z])|\\textdegree",
         "°"),
        (r"(?<=\d)\s*-?\s*degrees?\b", "°"),
        (r"°\s*(?:⟦\s*)?([CF])(?![a-zA-Z])(?:\s*⟧)?", r"°⟦\1⟧"),
        (r"\\%|\s*\b(?:percentage|percent|pct)\b", "%"),
        (r"\\begin\{(?:[bBpvV]?matrix|smallmatrix|array)\}(?:\{[clr|\s]*\})?",
         lambda m: m.group() if "v" in m.group().lower() else r"\begin{pmatrix}"),
        (r"\\end\{(?:[bBp]?matrix|smallmatrix|array)\}", r"\\end{pmatrix}"),
        (r"\\\\\s*(?=\\end\{)", ""),
        (r"\bnp\.|\bmath\.", r"\\"),
        (r"\\arc(?=sinh|cosh|tanh)", r"\\ar"),
        (r"\*\*", "^"),
        (r"\*", r"\\cdot "),
        (r"(?<![a-zA-Z\\])a(sin|cos|tan)(?=\()", r"arc\1"),
        (r"(?<![a-zA-Z\\])(?:(abs)|floor)\(([^()]*)\)",
         lambda m: f"|{m[2]}|" if m[1] else rf"\lfloor {m[2]}\rfloor "),
        (r"(?<![a-zA-Z\\])(?:cbrt|(log)10)(?=\()", lambda m: r"\log_{10}" if m[1] else r"\sqrt[3]"),
        (r"(?<![a-zA-Z\\])(sqrt|arcsin|arccos|arctan|sin|cos|tan|sec|csc|cot|ln|log|exp|pi|gcd|lcm)"
         r"(?![a-zA-Z])", r"\\\1 "),
        (r"(?<![a-zA-Z\\])(?:infinity|infty|inf|oo)(?![a-zA-Z])", r"\\infty "),
        (BRACKETED, r"\1{\2}"),  # 2^(n+1)
        (BRACKETED, r"\1{\2}"),  # x^(2^(n))
        (r"\\sqrt\s*(\[[^][]*\])?\s*([0-9a-zA-Z])", r"\\sqrt\1{\2}"),
        (r"\\(frac|[dt]?binom)\s*([0-9a-zA-Z])\s*([0-9a-zA-Z])", r"\\\1{\2}{\3}"),
        (r"\\frac\s*([0-9a-zA-Z])\s*(?=\{)", r"\\frac{\1}"),
        (r"\\frac\s*(\\[a-zA-Z]+)\s*([0-9a-zA-Z])(?![a-zA-Z])", r"\\frac{\1}{\2}"),
        (r"(\\frac\s*\{[^{}]*\})\s*([0-9a-zA-Z])", r"\1{\2}"),
        (r"\\frac\s+", r"\\frac"),
        (r"([\^_])\s*\{\s*([0-9a-zA-Z])\s*\}(?!\d)", r"\1\2"),
        (r"\\log\s*_(?:e|\{e\})(?![a-zA-Z])", r"\\ln "),
        (r"\\lg(?![a-zA-Z])", r"\\log_{10}"),
        # Words that change the number beside them; other such words make it no number.
        (r"(⟦?)\s*\b(?:negative|minus)\s*(⟧?)\s*(?=[\d.(\\])|负(?=\d)",
         lambda m: "-" if m[2] else f"{m[1] or ''}-"),
        (rf"\A⟦\s*([-+]?{VALUE}[%°]?)(?=[^⟦⟧\d]*⟧\Z)", r"\1⟦"),
        (r"\A⟦?\s*(?:one[- ]|a )?half\s*⟧?\Z", r"\\frac{1}{2}"),
        (r"(\d*\.\d*?)(?:(\d)\2{2,}|(\d{2,}?)\3+)\.\.\.", r"\1\\overline{\2\3}"),
        (r"(?<=\d)\s*\^\s*\{\s*⟦?\s*(?:st|nd|rd|th)\s*⟧?\s*\}", ""),
        (r"(?<=\d)(\s*⟦?\s*)(?:st|nd|rd|th)\b", r"\1"),
        (rf"_\{{?\s*⟦?\s*({SPOKEN})\s*⟧?\s*\}}?", lambda m: f"_{{{_spoken(m[1])}}}"),
        (rf"(\w+)\s*⟦?\s*\(?(?:in )?base[- ]({SPOKEN}|\d+|⟧\s*\d+)\s*\)?\s*(?:⟧|$)",
         lambda m: f"{m[1]}_{{{_spoken(m[2].strip('⟧ '))}}}"),
        (rf"\ban?\s+(?={SCALE})", "1 "),
        (rf"\A\s*(-?\s*⟦?\s*(?:negative |minus )?)({SPOKEN})"
         rf"(?=(?:[\s-]*{SCALE}s?)*\s*(?:[a-z]+\s*)?⟧?\s*\Z)",
         lambda m: f"{'-' * ('n' in m[1] or '-' in m[1])}{_spoken(m[2])}{'⟦' * ('⟦' in m[1])}"),
        (rf"({VALUE})(\s*⟦?[\s-]*)({SCALE}(?:[\s-]+{SCALE})?)s?(?![a-z])",
         lambda m: _scaled(m[1], m[3]) + m[2]),
        (rf"⟦?\s*\bhalf of\s*⟧?\s*(?={VALUE})", r"\\frac{1}{2}\\cdot "),
        (rf"({VALUE})\s*⟦?\s*squared\s*⟧?", r"(\1)^2"),
        (rf"({VALUE})\s*⟦?\s*cubed\s*⟧?", r"(\1)^3"),
        (r"\s*([\u4e00-\u9fff]+)(?![^⟦⟧]*⟧)", r"⟦\1⟧"),
        (r"\A([-+]?)([¤€£¥₹])\s*([\d.,]*\d)\Z|\A([-+]?[\d.,]*\d)\s*([¤€£¥₹])\Z",
         lambda m: f"{m[1] or ''}{m[3] or m[4]}⟦ {CURRENCIES[m[2] or m[5]]}⟧"),
        (r"[¤€£¥₹]|⟦[\s.]*⟧", ""),
        (r"[,;\s]*⟦[\s,;]*(?:and|or)[\s,;]*⟧[,;\s]*|(?<=[\d)}\]])or(?=[A-Z])"
         r"|[,;]?\s*(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z])(?![^⟦⟧]*⟧)\s*", ", "),
        # A unit in plain letters: only after a number, so that products of variables stay.
        (r"(?<![a-zA-Z\\])([-+]?(?:[\d.,]*\d|\\frac\{\d+\}\{\d+\})(?:/\d+)?|\}|\\pi)"
         rf"((?:\s+{WORD_UNITS}(?:(?:\s+|/){WORD_UNITS}|/[hs])*|(?:{TWO_LETTER_UNITS})|m(?=\^[23]))"
         r"(?:\^\{?[23]\}?)?)\s*(?=$|[,;)=]|[-+]\s)", r"\1⟦\2⟧ "),
        (r"(?<![\w.}^_/)\]])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}"
         r"|(?<![\w.}^_/)\]])(\d+)\s+(\d+)/(\d+)(?!\d)", lambda m: _sum(m)),
        (r"^-\s*(?=\(\d+\+\\frac)", "-"),
        (r"\\(sin|cos|tan|cot|sec|csc|ln|log)\s*((?:\^\{?-?\w+\}?)?)\s*([a-zA-Z]|\\[a-z]+)"
         r"(?=\s*(?:\\cdot|\\(?:sin|cos|tan|cot|sec|csc|ln|log)))", r"\\\1\2(\3)"),
        (r"\s+", " "),
    )
]  # fmt: skip


def clean(text: str) -> str:
    """Return `text` in one spelling. "x = \\dfrac12\\text{ cm}." -> "x = \\frac{1}{2}⟦ cm⟧".

    Unified: Unicode signs, dollars and other math delimiters, sizes, spaces, fraction and root
    shorthands, relation signs, matrix environments, Python forms (np.arcsin, **), degrees (°),
    percent (%), "and"/"or" (a comma), units after a number, mixed numbers (1 1/2 is a sum).
    """
    if text.isascii() and text.isdecimal():  # as most answers are
        return text
    text = EATEN.sub(lambda match: "\\" + "fbtr"["\f\b\t\r".index(match[1])], text)
    if "\\\\" in text and "\\begin" not in text:
        text = re.sub(r"\\\\(?=[a-zA-Z(\[{])", r"\\", text)  # a doubled escape, no new row
    text = RAISED.sub(lambda match: f"^{{{normalize('NFKC', match[0])}}}", text)
    text = COMPOSITE.sub(_unit, ROWS.sub(_rows, text.translate(CHARACTERS).strip()))
    for _ in range(3):  # nested as in \text{\textbf{(C)}}
        text = TEXT.sub(_words, text)
    if not re.fullmatch(r"\W*⟦[^⟦⟧]*⟧\W*", text):  # 5\text{ or 7}: the numbers are part of it
        text = re.sub(r"⟦([^⟦⟧]*\d[^⟦⟧]*)⟧", _numbers, text)
    for pattern, replacement in SPELLINGS:
        text = pattern.sub(replacement, text)
    text = text.strip()
    text = re.sub(r"(?:,\s*)+(?=,|$)", "", text).strip(" ,;")
    return re.sub(r"(?<!\.)\.$", "", text).strip()


def squash(text: str) -> str:
    """Return `text` without spaces, except for those that end a command before a letter."""
    text = re.sub(r"(\\[a-zA-Z]+) (?=[a-zA-Z])", "\\1\x01", text)
    return text.replace(" ", "").replace("\x01", " ")


def words(text: str) -> str:
    """Return the letters and digits of `text` in lower case; a single one keeps its case."""
    text = re.sub(r"\\[a-zA-Z]+|^\W*(?:[Aa]n?|[Tt]he)\s+(?=[a-z]{3})", "", text)
    letters = "".join(character for character in text if character.isalnum())
    return letters if len(letters) == 1 else letters.lower()


def contradict(gold: str, answer: str, drop_units: bool) -> bool:
    """Return whether the words of two cleaned texts exclude each other: both have units, but
    different ones, their conditions differ, or each has a word that the other lacks."""
    sides = (gold, answer)
    (units, words), (their_units, their_words) = map(_said, sides)
    conditions = {squash(match[1]) for side in sides if (match := CONDITION.search(side))}
    differ = units and their_units and units != their_units and not drop_units
    return bool(differ or len(conditions) > 1 or (words - their_words and their_words - words))


def _said(text: str) -> tuple[set[str], set[str]]:
    units: set[str] = set()
    words: set[str] = set()
    for inside, power in re.findall(r"⟦([^⟦⟧]*)⟧\s*(?:\^\{?-?([23])\}?)?", text):
        names = [SHORT_FOR.get(name, name) for name in re.findall("[a-zA-Z]+", inside.lower())]
        names = [name for name in " ".join(names).split() if not EMPTY.fullmatch(name)]
        known = [UNITS.get(name, UNITS.get(name.removesuffix("s"))) for name in names]
        if None in known:
            words.update(name.removesuffix("s") for name in names)
        else:
            units.update(known, power)
    return units - {""}, words


def _words(match: re.Match) -> str:
    inside = match.group(1)
    bare = inside.strip()
    if inside.startswith("⟦") or not bare:
        return inside
    based = match.string[match.end() :].lstrip().startswith("_")  # \text{AF}_{16}
    if re.fullmatch(r"[A-Z](?:\s*,\s*[A-Z])+", bare) or (based and bare.isalnum()):
        return inside
    if bare in ("%", "percent", "pct"):
        return "%"
    if bare in ("degrees", "degree", "°"):
        return "°"
    before, after = match.string[: match.start()], match.string[match.end() :].lstrip()
    number = re.sub(r"(?:\\[ ,;:!]|~|\s)+\Z", "", before)[-1:].isdigit()
    applied = re.match(r"[\w({\\^|]", after) and not (number and bare in UNITS)
    if applied and FUNCTIONS.fullmatch(bare):
        return f"\\{bare} "
    if match.group(0).startswith((r"\math", r"\boldsymbol", r"\bm")):
        unit = bare not in ("e", "i", "d") and (number or before.rstrip().endswith("\\,"))
        return f"⟦{inside}⟧" if (len(bare) > 1 and bare.isalpha()) or unit else f" {inside} "
    if match.group(0).startswith(r"\operatorname"):
        return f"\\{bare} "
    if re.fullmatch("[einxyz]", bare) or not any(map(str.isalpha, bare)):
        return f" {inside} "
    return f"⟦{inside}⟧"


def _numbers(match: re.Match) -> str:
    if re.fullmatch(r"\s*[A-Za-z]+ \d+:\s*", match[1]):  # a label: Option 3
        return match[0]
    parts = re.split(f"({COUNT.pattern})", match[1])
    texts = (f"⟦{p}⟧" if re.search(r"[^\W\d]", p) else p for p in parts[::2])
    return "".join(a + b for a, b in zip(texts, [*parts[1::2], ""], strict=True))


def _rows(match: re.Match) -> str:
    """Return an environment's rows as a list, and a chain of equations as one; cases stay."""
    body = re.sub(r"&(?=\s*=)|\\\\\s*&?\s*(?==)", "", match[2])
    matrix = match[1] == "array" and "\\\\" in body and "=" not in body
    if matrix or (match[1] in ("cases", "array") and "&" in body):
        return match[0]
    return re.sub(r"\\\\(?=\s*\S)", ", ", body.replace("&", "")).replace("\\\\", "")


def _unit(match: re.Match) -> str:
    above, below = (re.sub(r"\\[a-z]+|[^a-zA-Z]", " ", part) for part in match.groups()[1:])
    return rf"{match[1]}\text{{{above} per {below}}}"


def _spoken(word: str) -> str:
    return str(SMALL.index(word.lower())) if word.lower() in SMALL else word


def _scaled(value: str, scales: str) -> str:
    scale = prod(SCALES[word] for word in re.split(r"[\s-]+", scales))
    if "frac" in value:
        return rf"{value}\cdot {scale}"
    scaled = Fraction(value.replace(",", "")) * scale
    return str(scaled if scaled.denominator == 1 else float(scaled))


def _sum(match: re.Match) -> str:
    whole, top, bottom = (group for group in match.groups() if group is not None)
    if int(top) >= int(bottom):
        return match.group()
    return f"({whole}+\\frac{{{top}}}{{{bottom}}})"
