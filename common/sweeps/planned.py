"""Finds the row of a paper's sweeps that a run belongs to. A run is identified by what it computes,
however it was started."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from common.config.files import ROOT
from common.experiment import Experiment
from common.sweeps.plan import Reproduce, base_of, run_name, runs_of, scales_of

RUN_ID = re.compile(r"(?P<name>.+)-s(?P<seed>\d+)-[0-9a-f]{8}")


def planned(paper: str, run_ids: Iterable[str]) -> dict[str, Experiment]:
    """Return, by run id, the runs for which a sweep of the paper has a row, with the row's table,
    label and scope, whatever their seed. Seeds above those of the laptop scales start from the base
    model of their seed.

    Only rows whose names occur in `run_ids` are composed, each once per process.
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
    """Return the rows of all scales whose runs have one of these names, each with one seed."""
    found = []
    for scale in config.scales:
        one = replace(config, scale=scale)
        for sweep in one.sweeps:
            wanted = [row for row in sweep.rows if run_name(sweep, row) in names]
            found += runs_of(one, replace(sweep, rows=wanted, seeds=sweep.seeds[:1]))
    return found
