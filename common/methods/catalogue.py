"""The methods, from the method files and the docstrings of their functions.

rlvr methods             the methods, a line each
rlvr methods NAME        one method: its values, formula and source
"""

import inspect
import re
import textwrap
from collections.abc import Callable

from common.config.resolve import module
from common.config.words import options
from common.errors import one_of
from common.methods.files import as_written, introduction, names
from common.results.tables import markdown as to_markdown

PARTS = {  # key of a method file -> the kind of function that it names
    "advantage": "Advantage",
    "loss": "Loss",
    "token_weights": "Token weights",
    "aggregation": "Aggregation",
    "controller": "Controller",
}


def function(path: str) -> Callable:
    return getattr(module({"_target_": path}), path.rpartition(".")[2])


def parts(entries: dict) -> dict[str, Callable]:
    """Return the functions that a method is made of, by key."""
    targets = {part: entries.get(f"{part}._target_") for part in PARTS}
    return {part: function(target[0]) for part, target in targets.items() if target}


def prose(text: str) -> str:
    """Return plain text as one line of Markdown, with markup escaped except in `code`."""
    pieces = re.split("(`[^`]*`)", " ".join(text.split()))
    pieces[::2] = [re.sub(r"([*~]|<(?=\w))|(?<!\w)(?=_)", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


def markdown(doc: str) -> list[str]:
    """Return a docstring in Markdown: indented paragraphs as code, masses, source, peers listed."""
    out = []
    for paragraph in doc.split("\n\n"):
        if paragraph.startswith("    "):
            out += ["```text", textwrap.dedent(paragraph), "```", ""]
            continue
        marked = re.compile("^(Source|Peers): |^m_S = ")
        facts = [line for line in paragraph.splitlines() if marked.match(line)]
        rest = [line for line in paragraph.splitlines() if not marked.match(line)]
        out += [f"- {prose(f)}" if f[0] != "m" else f"- Masses: `{f}`" for f in facts]
        out += [""] * bool(facts) + [prose("\n".join(rest)), ""] * bool(rest)
    return out


def parameters(entries: dict, base: dict) -> list[str]:
    """Return a table of key, value and comment of all that differs from _base.yaml."""
    rows = []
    for key, (value, comment) in entries.items():
        old, old_comment = base.get(key, ("", ""))
        shared = value == old and comment in ("", old_comment)
        if shared or value == "" or key in ("name", "advantage._target_"):
            continue
        part, _, last = key.rpartition(".")
        shown = f"`{value}`"
        if last == "_target_":
            key, shown = part, f"`{value.rpartition('.')[2]}`"
            comment = "; ".join(filter(None, [entries[part][1], comment]))
        rows.append([f"`{key}`", shown, prose(comment)])
    table = to_markdown(["key", "value", "comment"], rows).splitlines()
    return [*table, ""] if rows else ["No values of its own.", ""]


def listed() -> str:
    lines = [textwrap.shorten(f"{name:24}{introduction(name)}", 100) for name in names()]
    return "\n".join([*lines, "next: rlvr methods NAME"]) + "\n"


def one(name: str) -> str:
    """Return the text on one method: its values, and its parts with formula and source."""
    one_of("method", name, names())
    entries = as_written(name)
    out = [f"# Method {name}", "", prose(introduction(name)), ""]
    out += parameters(entries, as_written("_base"))
    for part, f in parts(entries).items():
        out += [f"## {PARTS[part]} {f.__name__}", "", *markdown(inspect.getdoc(f))]
    out += [f"next: rlvr theory method={name}", f"      rlvr train paper=f_grpo method={name}"]
    return "\n".join(out) + "\n"


def main(words: list[str]) -> None:
    """Run `rlvr methods [NAME]`; NAME may be written method=NAME."""
    if len(words) == 1 and "=" not in words[0]:
        words = [f"method={words[0]}"]
    name = options(words, {"method": ""})["method"]
    print(one(name) if name else listed(), end="")
