"""Which runs one line of a comparison averages: runs that differ only in the seed and, for a row of
a paper's tables, that a sweep plans."""

import json
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from common.experiment import APART
from common.results.collect import config_of
from common.results.files import config_hash
from common.results.provenance import meta_of

BASE_SEED = "model.pretrain.seed"  # goes with the run's own seed
# Keys of a run's configuration on which no number depends, and those that name it.
IGNORED = (*APART, "paper", "name", "seed", "optim.gradient_checkpointing")


def settings(run: Path) -> dict[str, object]:
    """Return what the numbers of a training run depend on besides its seed, by dotted key."""
    code = (meta_of(run) or {}).get("contents")  # hashes of the user's own files
    return _flat(config_of(run) | ({"contents": config_hash(code)} if code else {}))


def _flat(node: dict, prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in ((prefix + key, value) for key, value in node.items()):
        if key not in IGNORED:
            inner = _flat(value, f"{key}.") if isinstance(value, dict) else {}
            found |= inner or {key: value}
    return found


def differing(several: list[dict[str, object]]) -> list[str]:
    """Return the keys whose values differ; a key that is not there has the value None."""
    keys = dict.fromkeys(key for one in several for key in one)
    return [key for key in keys if any(x.get(key) != several[0].get(key) for x in several)]


def labelled(runs: dict[Path, pd.Series]) -> dict[Path, str]:
    """Return the method that each training run in a paper's results is shown as. `runs` has the
    table, model, method and seed that each was started with.

    A run that a sweep plans in this table keeps its method, and any other run that claims this
    table and method is named after what differs from the plan. Where no sweep plans the method,
    runs with other settings are named after what differs between them. A line has each seed once.
    """
    groups: dict[tuple, list[Path]] = {}
    for run, one in runs.items():
        groups.setdefault(tuple(one[["table", "model", "method"]]), []).append(run)
    shown: dict[Path, str] = {}
    for (table, _, method), group in groups.items():
        plan = _plan(group[0], table, method, [int(runs[run]["seed"]) for run in group])
        known = [settings(run) for run in group]
        for run, own in zip(group, known, strict=True):
            keys = differing([*plan.values(), own] if plan else known)
            said = [f"{key}={own.get(key)}" for key in keys if key != BASE_SEED]
            more = f"{len(said) - 2} more settings ({config_hash(own)})"
            said = said if len(said) <= 3 else [*said[:2], more]
            said = said or ["not planned"] * bool(plan)
            said = [] if (run.name, own.get("optim.steps")) in plan else said
            shown[run] = ", ".join([method, *said])
    lines = [(shown[run], *runs[run][["table", "model", "seed"]]) for run in shown]
    return {
        run: f"{name}, run {run.name[-8:]}" if lines.count((name, *key)) > 1 else name
        for run, (name, *key) in zip(shown, lines, strict=True)
    }


def _plan(
    run: Path, table: str, method: str, seeds: list[int]
) -> dict[tuple[str, int], dict[str, object]]:
    """Return the settings of the runs with these seeds that the sweeps of this run's paper plan in
    the table under this label, by run id and number of steps; {} where there are none."""
    from common.sweeps.plan import planned, rows  # imported here: it loads torch

    def wanted(sweep, row: str) -> bool:
        return sweep.table == table and rows(paper).get(row, {}).get("label") == method

    paper, smoke = config_of(run).get("paper", ""), run.parents[1].name == "smoke"
    found = [x for x in planned(paper, seeds, wanted, smoke) if x.paper == paper]
    as_read = (json.loads(json.dumps(asdict(x))) for x in found)  # lists for tuples
    return {(x.run_id, x.optim.steps): _flat(y) for x, y in zip(found, as_read, strict=True)}
