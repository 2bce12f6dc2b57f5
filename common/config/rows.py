"""A paper's rows (named experiment configurations), one line each in
`papers/<paper>/configs/reproduce.yaml`.

    rows:
      qwen7b_grpo: {label: GRPO, like: /cluster, model: qwen25_7b}
      qwen7b_f_grpo: {label: F-GRPO, like: qwen7b_grpo, method: f_grpo, method.advantage.gamma: 0.5}

`like` names the row that this row changes or, with a slash, the family file that it changes (a file
of the paper's configs/), or a list of these. A key that is a configuration group (method, model,
...) chooses a file of that group. Every other key is a dotted key of the Experiment.

`rlvr train paper=<paper> experiment=NAME` starts a row by its name.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from functools import cache
from typing import Any

from common.config.files import ROOT, read
from common.errors import require

RowConfig = dict[str, Any]  # key: value, as in the row's line


@cache
def stated(paper: str) -> dict[str, Any]:
    """Return the paper's reproduce.yaml as it is; {} without the file."""
    file = ROOT / "papers" / paper / "configs" / "reproduce.yaml"
    return read(file) if file.is_file() else {}


@cache
def rows(paper: str) -> dict[str, RowConfig]:
    """Return every row of a paper by its name, in the file's order, with the values of the rows it
    is like; `like` keeps only family files. Raises UserError for an unknown or circular `like`."""
    file = f"{ROOT / 'papers' / paper / 'configs' / 'reproduce.yaml'}"
    own = stated(paper).get("rows", {})
    return {name: _resolved(name, own, file=file) for name in own}


@cache
def tables(paper: str) -> dict[str, str]:
    """Return the table of each row's results, named by its first sweep; later ones change it."""
    found: dict[str, str] = {}
    for scale in stated(paper)["scales"].values():
        for sweep in scale["sweeps"]:
            for name in (n for one in sweep["rows"] for n in matching(rows(paper), one)):
                found.setdefault(name, sweep["table"])
    return found


def matching(known: Mapping[str, Any], pattern: str) -> list[str]:
    """Return the `known` names that match a sweep's pattern."""
    return [pattern] if pattern in known else fnmatch.filter(known, pattern)


def _resolved(
    name: str, stated: dict[str, RowConfig], *, file: str, inside: tuple[str, ...] = ()
) -> RowConfig:
    require(name in stated, f"{file}: like", name, f"use one of {', '.join(stated)}, or /FAMILY")
    require(name not in inside, f"{file}: like", name, "a row cannot be like itself")
    own, families, row = dict(stated[name]), [], {}
    like = own.pop("like", [])
    for parent in [like] if isinstance(like, str) else like:
        if parent.startswith("/"):
            families.append(parent)
            continue
        taken = _resolved(parent, stated, file=file, inside=(*inside, name))
        families += taken.pop("like")
        row |= taken
    return {"like": families} | row | own


def files_of(paper: str, row: RowConfig) -> dict[str, str]:
    """Return the file that a row chooses of each configuration group."""
    return {
        key: value for key, value in row.items() if isinstance(value, str) and is_group(paper, key)
    }


@cache
def is_group(paper: str, key: str) -> bool:
    homes = (ROOT / "papers" / paper / "configs", ROOT / "configs")
    return any((home / key).is_dir() for home in homes)
