"""Which runs one line of a comparison averages: runs that differ only in the seed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from common.experiment import NOT_IDENTITY, Experiment
from common.results.collect import config_of
from common.results.files import config_hash
from common.results.provenance import meta_of

BASE_SEED = "model.pretrain.seed"  # goes with the run's own seed
# Keys of a run's configuration on which no number depends, and those that name it.
IGNORED = (*NOT_IDENTITY, "paper", "name", "seed", "optim.gradient_checkpointing")
NOT_PLANNED = "not planned"


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


def differing(several: Sequence[dict[str, object]]) -> list[str]:
    """Return the keys whose values differ; a missing key has the value None."""
    keys = dict.fromkeys(key for one in several for key in one)
    return [key for key in keys if any(x.get(key) != several[0].get(key) for x in several)]


def placed(x: Experiment) -> Experiment:
    """Return `x` as the sweeps of its paper show it: a run that a sweep trains gets the scope,
    table and label that it has there. Another run with a sweep's table and label is named after
    what differs from the sweep's runs, so that no claim reads it."""
    from common.sweeps.plan import planned, run_name  # imported here: it loads torch

    seeds, name = [x.seed], x.name
    for run in planned(x.paper, seeds, lambda sweep, row: run_name(sweep, row) == name):
        if run.run_id == x.run_id:
            x = replace(x, scope=run.scope, table=run.table, label=run.label)
            if run.optim.steps == x.optim.steps:
                return x
    table = x.table
    named = planned(x.paper, seeds, lambda sweep, row: sweep.table == table)
    theirs = [run for run in named if (run.paper, run.label) == (x.paper, x.label)]
    alike = any((run.run_id, run.optim.steps) == (x.run_id, x.optim.steps) for run in theirs)
    if x.scope == "cluster" or not theirs or alike:
        return x
    as_read = [json.loads(json.dumps(asdict(one))) for one in (x, *theirs)]  # lists for tuples
    own, *others = map(_flat, as_read)
    said = _said(own, differing([*others, own])) or [NOT_PLANNED]
    return replace(x, label=", ".join([x.label, *said]))


def labelled(runs: Sequence[Path]) -> dict[Path, str]:
    """Return each run's label, with what differs within it, so that a line's seeds are unique."""
    groups: dict[tuple, list[Path]] = {}
    for run in runs:
        config = config_of(run)
        line = config["table"], config["model"]["name"], config["label"]
        groups.setdefault(line, []).append(run)
    shown, lines = {}, []
    for (table, model, label), group in groups.items():
        known = [settings(run) for run in group]
        keys = differing(known)
        for run, own in zip(group, known, strict=True):
            shown[run] = ", ".join([label, *_said(own, keys)])
            lines.append((shown[run], table, model, config_of(run)["seed"]))
    return {
        run: f"{line[0]}, run {run.name[-8:]}" if lines.count(line) > 1 else line[0]
        for run, line in zip(shown, lines, strict=True)
    }


def _said(own: dict[str, object], keys: list[str]) -> list[str]:
    said = [f"{key}={own.get(key)}" for key in keys if key != BASE_SEED]
    more = f"{len(said) - 2} more settings ({config_hash(own)})"
    return said if len(said) <= 3 else [*said[:2], more]
