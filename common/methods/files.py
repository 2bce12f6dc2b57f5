"""The method files of configs/method as text: names, values and comments."""

import re

from common.config.compose import ROOT

FOLDER = ROOT / "configs" / "method"


def names() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("[!_]*.yaml"))


def read(name: str) -> dict[str, tuple[str, str]]:
    """A method file after its `defaults`: dotted key -> (value as written, comment of its line)."""
    entries, path = {}, []
    for line in (FOLDER / f"{name}.yaml").read_text().splitlines():
        if found := re.fullmatch(r"( *)(\w+):\s*([^#]*?)(?:\s+# *(.*))?", line):
            indent, key, value, comment = found.groups()
            path[len(indent) // 2 :] = [key]
            entries[".".join(path)] = (value, comment or "")
        if line.startswith("defaults:"):
            for parent in entries.pop("defaults")[0].strip("[]").split(", "):
                entries |= read(parent) if parent != "_self_" else {}
    return entries


def introduction(name: str) -> str:
    """The comment that a method file starts with."""
    lines = (FOLDER / f"{name}.yaml").read_text().splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return " ".join(line.lstrip("# ") for line in lines[:end])
