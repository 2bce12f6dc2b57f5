"""Which row of its paper's sweeps a run is: a run is what it computes, however it was started."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from common.config.files import ROOT
from common.experiment import Experiment
from common.sweeps.evidence import base_of
from common.sweeps.plan import Reproduce, Sweep, runs_of, scales_of

RUN_ID = re.compile(r"(?P<name>.+)-s(?P<seed>\d+)-[0-9a-f]{8}")


def planned(paper: str, run_ids: Iterable[str]) -> dict[str, Experiment]:
    """Those of the runs that a sweep of the paper has a row for, with its table, label and scope,
    whatever the seed; seeds that no sweep lists start from the base model of `rlvr evidence`.

    Only rows of these names are composed, and each once a process.
    """
    seeds: dict[str, set[int]] = {}
    for run_id in set(run_ids):
        if match := RUN_ID.fullmatch(run_id):
            seeds.setdefault(match["name"], set()).add(int(match["seed"]))
    if not seeds or not (ROOT / "papers" / paper / "configs" / "reproduce.yaml").exists():
        return {}
    found: dict[str, Experiment] = {}
    for row in rows(scales_of(paper), set(seeds)):
        for seed in seeds[row.name]:
            x = base_of(replace(row, seed=seed))
            found.setdefault(x.run_id, x)
    return {run_id: x for run_id, x in found.items() if run_id in run_ids}


def rows(config: Reproduce, names: set[str]) -> list[Experiment]:
    """The rows of all scales whose runs have one of these names, each with one of its seeds."""
    found = []
    for scale in config.scales:
        one = replace(config, scale=scale)
        for sweep in one.sweeps:
            wanted = [row for row in sweep.rows if _run_name(sweep, row) in names]
            found += runs_of(one, replace(sweep, rows=wanted, seeds=sweep.seeds[:1]))
    return found


def _run_name(sweep: Sweep, row: str) -> str:
    """The name in the run ids of a row: its own less its folder, unless the sweep gives one."""
    given = [word.removeprefix("name=") for word in sweep.overrides if word.startswith("name=")]
    return given[-1] if given else row.rpartition("/")[2]
