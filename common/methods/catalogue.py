"""The methods, which are the files of configs/method, with the docstrings of their functions.

rlvr methods             the methods, a line each
rlvr methods NAME        one method: its file, and its functions with formula and source
"""

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path

from omegaconf import OmegaConf

from common.config import files
from common.config.compose import group_file
from common.config.resolve import import_target
from common.config.schema import Method
from common.config.strict import strict
from common.config.words import options

# the keys of a method file that name functions
PARTS = ("advantage", "loss", "token_weights", "aggregation", "controller")


def names() -> list[str]:
    """Return the names of the methods, which are their file names."""
    return files.names("method")


def method(
    name: str, *, max_tokens: int | None = None, steps: int | None = None, **arguments
) -> Method:
    """Return the Method of a name or of the path of a .yaml file, outside of an Experiment.
    `arguments` replace the same arguments of its advantage. Raises UserError for an unknown name,
    and if the method needs max_tokens or steps and it is None."""
    outside = {} if max_tokens is None else {"sampling": {"max_tokens": max_tokens}}
    outside |= {} if steps is None else {"optim": {"steps": steps}}
    root = OmegaConf.create({**outside, "method": group_file("method", name)})
    root.method.advantage = OmegaConf.merge(root.method.advantage, arguments)
    return strict(Method, root.method)


def functions(name: str) -> dict[str, Callable]:
    """Return the functions that a method is made of, by key."""
    parts = {part: group_file("method", name)[part] for part in PARTS}
    return {
        part: import_target(node["_target_"], f"{part}._target_")
        for part, node in parts.items()
        if node is not None
    }


def introduction(name: str) -> str:
    """Return the comment that a method file starts with."""
    lines = _text(name).splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return " ".join(line.lstrip("# ") for line in lines[:end])


def description(name: str) -> str:
    """Return the text on one method. Raises UserError for an unknown name."""
    parts = functions(name)
    out = [_text(name)]
    for part, function in parts.items():
        out.append(f"{part}: {function.__name__}\n\n{inspect.getdoc(function)}\n")
    out.append(f"next: rlvr theory method={name}\n      rlvr train paper=f_grpo method={name}\n")
    return "\n".join(out)


def _text(name: str) -> str:
    ours = files.ROOT / "configs" / "method" / f"{name}.yaml"
    return (Path(name) if name.endswith(".yaml") else ours).read_text()


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
