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
from common.errors import UserError, require

RowConfig = dict[str, Any]  # key: value, as in the row's line
MERGED = ("method", "model", "eval")  # groups whose file most rows and evaluations choose
NONE = "none"  # a file of these groups without values (register_family)


@cache
def stated(paper: str) -> dict[str, Any]:
    """Return the paper's reproduce.yaml as it is; {} where it has none."""
    file = ROOT / "papers" / paper / "configs" / "reproduce.yaml"
    return read(file) if file.is_file() else {}


@cache
def rows(paper: str) -> dict[str, RowConfig]:
    """Return every row of a paper by its name, in the file's order, with the values that it takes
    from the rows that it is like. Its `like` then lists only family files. Raises UserError for a
    row that is unknown or is like itself."""
    file = f"{ROOT / 'papers' / paper / 'configs' / 'reproduce.yaml'}"
    own = stated(paper).get("rows", {})
    return {name: _resolved(name, own, file=file) for name in own}


@cache
def tables(paper: str) -> dict[str, str]:
    """Return the table that the results of each row stand under: that of the first sweep with the
    row. Later sweeps train the row again with other values, or further."""
    found: dict[str, str] = {}
    for scale in stated(paper)["scales"].values():
        for sweep in scale["sweeps"]:
            for name in (n for one in sweep["rows"] for n in matching(rows(paper), one)):
                found.setdefault(name, sweep["table"])
    return found


def matching(known: Mapping[str, Any], pattern: str) -> list[str]:
    """Return the `known` names that match a sweep's pattern. Most patterns are plain names."""
    return [pattern] if pattern in known else fnmatch.filter(known, pattern)


def _resolved(
    name: str, stated: dict[str, RowConfig], *, file: str, inside: tuple[str, ...] = ()
) -> RowConfig:
    require(name in stated, f"{file}: like", name, f"use one of {', '.join(stated)}, or /FAMILY")
    require(name not in inside, f"{file}: like", name, "a row is not like itself")
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


def register(paper: str, name: str) -> None:
    """Make the row `name` of a paper the one choice of Hydra's group `experiment`."""
    row = rows(paper)[name]
    files = [{f"override /{group}": file} for group, file in files_of(paper, row).items()]
    _store(name, [*row["like"], *files], values_of(paper, name))


def register_family(like: tuple[str, ...]) -> None:
    """Make the family files `like` the one choice `family` of Hydra's group `experiment`, and NONE
    a choice of every group that has a file of values."""
    from hydra.core.config_store import ConfigStore

    _store("family", [*like], {})
    for group in MERGED:
        ConfigStore.instance().store(group=group, name=NONE, node={})


def _store(name: str, files: list[Any], values: dict[str, Any]) -> None:
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()  # a singleton: ConfigStore() returns the same object
    store.repo["experiment"] = {}
    group, _, short = f"experiment/{name}".rpartition("/")
    node = {"defaults": [*files, "_self_"], **values}
    store.store(group=group, name=short, node=node, package="_global_")


def files_of(paper: str, row: RowConfig) -> dict[str, str]:
    """Return the file that a row chooses of each configuration group."""
    return {
        key: value for key, value in row.items() if isinstance(value, str) and is_group(paper, key)
    }


@cache
def values_of(paper: str, name: str) -> dict[str, Any]:
    """Return the values of a row and its name, as nested keys of an Experiment."""
    row = rows(paper)[name]
    node: dict[str, Any] = {"name": name.rpartition("/")[2]}
    for key in [key for key in row if key not in ("like", *files_of(paper, row))]:
        value, place = row[key], node
        *path, last = key.split(".")
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise UserError(f"{paper}, row {name}: {key}={value}: {part} has a value already")
        # the file writes \\${key} for a value that is resolved in the Experiment, not in the file
        place[last] = value.replace("\\${", "${") if isinstance(value, str) else value
    return node


@cache
def is_group(paper: str, key: str) -> bool:
    homes = (ROOT / "papers" / paper / "configs", ROOT / "configs")
    return any((home / key).is_dir() for home in homes)
