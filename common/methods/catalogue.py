"""The methods, from the method files and the docstrings of their functions.

rlvr methods             the methods, a line each
rlvr methods NAME        one method: its file, and its functions with formula and source
"""

import inspect
import textwrap
from collections.abc import Callable

from common.config.resolve import import_target
from common.config.words import options
from common.errors import one_of
from common.methods.files import FOLDER, compose, names

# the keys of a method file that name functions
PARTS = ("advantage", "loss", "token_weights", "aggregation", "controller")


def functions(name: str) -> dict[str, Callable]:
    """Return the functions that a method is made of, by key."""
    method = compose(name)
    named = [part for part in PARTS if method[part] is not None]
    return {part: import_target(method[part]["_target_"], f"{part}._target_") for part in named}


def introduction(name: str) -> str:
    """Return the comment that a method file starts with."""
    lines = (FOLDER / f"{name}.yaml").read_text().splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return " ".join(line.lstrip("# ") for line in lines[:end])


def description(name: str) -> str:
    """Return the text on one method."""
    one_of("method", name, names())
    out = [(FOLDER / f"{name}.yaml").read_text()]
    for part, function in functions(name).items():
        out.append(f"{part}: {function.__name__}\n\n{inspect.getdoc(function)}\n")
    out.append(f"next: rlvr theory method={name}\n      rlvr train paper=f_grpo method={name}\n")
    return "\n".join(out)


def main(words: list[str]) -> None:
    """Run `rlvr methods [NAME]`; NAME may be written method=NAME."""
    if len(words) == 1 and "=" not in words[0]:
        words = [f"method={words[0]}"]
    if name := options(words, {"method": ""})["method"]:
        print(description(name), end="")
        return
    for name in names():
        print(textwrap.shorten(f"{name:24}{introduction(name)}", 100))
    print("next: rlvr methods NAME")
