"""The command that reruns each row of papers/<p>/configs/reproduce.yaml, and its cost.

Rows are read from the YAML files without Hydra, which takes milliseconds. Costs are the ranges of
the dry run, which `rlvr docs` stores in results/reference/<p>/costs.csv (slurm/prices.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pandas as pd

from common.config.files import ROOT, read
from common.config.rows import Row, rows
from common.errors import require
from common.sweeps.cost import Range

SCALES = ("full", "cluster")  # everything that a laptop can run; the papers' own sizes


@dataclass(frozen=True)
class Rerun:
    """One row of a table."""

    scope: str
    table: str
    model: str
    method: str
    seeds: int
    command: str
    cost: Range | None  # of all seeds: hours of a core on a laptop, of a GPU on a cluster
    experiment: str = ""
    overrides: tuple[str, ...] = ()
    ran: tuple[int, ...] = ()  # the seeds


def costs(file: Path) -> pd.DataFrame:
    """Read the stored costs; the table is empty for a paper that `rlvr docs` has not priced."""
    columns = ["scope", "table", "experiment", "runs", "low", "high", "disk_gb", "where"]
    return pd.read_csv(file) if file.exists() else pd.DataFrame(columns=columns)


def reruns(paper: str, prices: pd.DataFrame, scales: tuple[str, ...] = SCALES) -> list[Rerun]:
    """Return every row of the paper's sweeps. Raises UserError for a file that cannot be read."""
    folders = (ROOT / "papers" / paper / "configs", ROOT / "configs")
    file = cache(partial(_read, folders))  # most rows have the same family
    found, base, stated = [], describe(file, "config"), rows(paper)
    known = prices.groupby(["scope", "table", "experiment"])[["low", "high"]].sum()
    sweeps = file("reproduce").get("scales", {})
    for scale in scales:
        for sweep in sweeps.get(scale, {}).get("sweeps", ()):
            for name in sweep["rows"]:
                x = base | describe_row(file, stated[name])
                words = [f"experiment={name}", f"table={sweep['table']}", *sweep["overrides"]]
                text = command(paper, words, sweep["seeds"], x["backend"])
                place = (x["scope"], sweep["table"], x["model"], x["label"], len(sweep["seeds"]))
                key = (x["scope"], sweep["table"], _name(name, sweep["overrides"]))
                cost = Range(*known.loc[key]) if key in known.index else None
                made = (name, tuple(sweep["overrides"]), tuple(sweep["seeds"]))
                found.append(Rerun(*place, text, cost, *made))
    return found


def command(paper: str, words: list[str], seeds: list[int], backend: str) -> str:
    """Return the shell command that runs all `seeds` of a row."""
    python = f"{'.venv' if backend == 'local' else '.venv-cluster'}/bin/python"
    many = ["--multirun"] if len(seeds) > 1 else []
    seed = "seed=" + ",".join(str(seed) for seed in seeds)
    return shlex.join([python, "-m", f"papers.{paper}", *many, *words, seed])


def describe_row(file: Callable[[str], dict], row: Row) -> dict[str, str]:
    """Return what `describe` returns, for a row."""
    described: dict[str, str] = {}
    for family in row["like"]:
        described |= describe(file, family.lstrip("/"))
    if "model" in row:
        described["model"] = file(f"model/{row['model']}")["name"]
    return described | {"label": row["label"]}


def describe(file: Callable[[str], dict], name: str) -> dict[str, str]:
    """Return label, scope, backend and the model's name from a configuration file and its defaults.
    `file` reads a configuration file by its name."""
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
    """Read the first configuration file of that name."""
    files = [folder / f"{name}.yaml" for folder in folders if (folder / f"{name}.yaml").exists()]
    require(bool(files), "configuration", name, f"no such file below {folders[0]}")
    return read(files[0])


def _name(row: str, overrides: list[str]) -> str:
    """Return the name of a row in costs.csv; a sweep may override the row's own name."""
    given = [word.removeprefix("name=") for word in overrides if word.startswith("name=")]
    return given[-1] if given else row.rpartition("/")[2]
