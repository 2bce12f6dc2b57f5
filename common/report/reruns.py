"""How to rerun each row, and what that costs: from the sweeps of papers/<p>/configs/reproduce.yaml.

Rows are described from the files themselves, in milliseconds; Hydra composes only the first row
that trains each model, for its cost. Costs are predictions of common/sweeps/cost.py with
the assumptions of configs/cost.yaml: ranges.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from common.backends import backend as of
from common.config.files import ROOT, read
from common.config.rows import Row, rows
from common.errors import UserError, require
from common.experiment import Experiment, load
from common.sweeps import cost
from common.sweeps.assumptions import assumptions
from common.sweeps.plan import BASE
from common.sweeps.profiles import load_profile

SCALES = ("full", "cluster")  # everything on this machine; the papers' own sizes
PROFILES = {"laptop": ("local",), "cluster": ("h100-1x8", "h100-2x8")}  # the first that is enough


@dataclass(frozen=True)
class Cost:
    """Of one seed of `name`."""

    name: str
    hours: cost.Range | None  # None where no profile can run it
    gpus: int
    where: str  # the profile, or why there is none


@dataclass(frozen=True)
class Rerun:
    """One row of a table."""

    scope: str
    table: str
    model: str
    method: str
    seeds: int
    command: str
    cost: Cost  # of the first row that trains this model
    experiment: str = ""
    overrides: tuple[str, ...] = ()
    ran: tuple[int, ...] = ()  # the seeds


def reruns(paper: str, scales: tuple[str, ...] = SCALES) -> list[Rerun]:
    """Every row that the paper's sweeps make. Raises UserError for a file that cannot be read."""
    folders = (ROOT / "papers" / paper / "configs", ROOT / "configs")
    file = cache(partial(_read, folders))  # most rows have the same family
    found, costs, base, stated = [], {}, describe(file, "config"), rows(paper)
    sweeps = file("reproduce").get("scales", {})
    for scale in scales:
        for sweep in sweeps.get(scale, {}).get("sweeps", ()):
            for name in sweep["rows"]:
                x = base | describe_row(file, stated[name])
                words = [f"experiment={name}", f"table={sweep['table']}", *sweep["overrides"]]
                key = (x["scope"], x["model"], name == BASE)  # which trains nothing
                if key not in costs:
                    costs[key] = _cost(x["label"], load([*words, "seed=1"], paper))
                text = command(paper, words, sweep["seeds"], x["backend"])
                place = (x["scope"], sweep["table"], x["model"], x["label"], len(sweep["seeds"]))
                made = (name, tuple(sweep["overrides"]), tuple(sweep["seeds"]))
                found.append(Rerun(*place, text, costs[key], *made))
    return found


def command(paper: str, words: list[str], seeds: list[int], backend: str) -> str:
    """What to type for all `seeds` of a row."""
    python = ".venv-cluster/bin/python" if of(backend).packages else ".venv/bin/python"
    many = ["--multirun"] if len(seeds) > 1 else []
    seed = "seed=" + ",".join(str(seed) for seed in seeds)
    return shlex.join([python, "-m", f"papers.{paper}", *many, *words, seed])


def describe_row(file: Callable[[str], dict], row: Row) -> dict[str, str]:
    """What `describe` gives, of a row."""
    described: dict[str, str] = {}
    for family in row["like"]:
        described |= describe(file, family.lstrip("/"))
    if "model" in row:
        described["model"] = file(f"model/{row['model']}")["name"]
    return described | {"label": row["label"]}


def describe(file: Callable[[str], dict], name: str) -> dict[str, str]:
    """label, scope, backend and the model's name of a configuration file, with its parents'; `file`
    reads one by its name."""
    node, described = file(name), {}
    for default in node.get("defaults", ()):
        if isinstance(default, str) and default != "_self_":
            described |= describe(file, default.lstrip("/"))
        elif isinstance(default, dict):
            model = default.get("override /model", default.get("model"))
            described |= {"model": file(f"model/{model}")["name"]} if model else {}
    described |= {key: node[key] for key in ("label", "scope", "backend") if key in node}
    return described | ({"model": node["model"]["name"]} if "name" in node.get("model", {}) else {})


def _read(folders: tuple[Path, ...], name: str) -> dict:
    """The first file of that name."""
    files = [folder / f"{name}.yaml" for folder in folders if (folder / f"{name}.yaml").exists()]
    require(bool(files), "configuration", name, f"no such file below {folders[0]}")
    return read(files[0])


def _cost(name: str, x: Experiment) -> Cost:
    reason = ""
    for where in PROFILES[x.scope]:
        profile = load_profile(where)
        try:
            hours = cost.estimate(x, profile, assumptions()).hours
        except UserError as error:
            reason = str(error)
        else:
            return Cost(name, hours, profile.gpus, where)
    return Cost(name, None, 0, reason)
