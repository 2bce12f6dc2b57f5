"""The models and public sets that the chosen rows (experiments) need, and their download."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from common.datasets.commits import fetched, public, read_from, read_whole
from common.datasets.solve_rate import unfiltered
from common.errors import require
from common.models.store import cached, download
from slurm.tables import Chosen


class Weights(NamedTuple):
    key: str  # the configuration key, for error messages
    path: str  # a folder or a hub id
    revision: str | None


def models(found: Chosen) -> list[Weights]:
    """Return the models that the runs load, each once, also memory networks. A model that a command
    makes, and that does not exist yet, is replaced by the one that the command starts from."""
    starts = {one.makes: one.loads for one in found.commands.values()}
    loaded = [
        Weights("loads", starts[x.model.path], None)
        if x.model.path in starts and not Path(x.model.path).exists()
        else Weights("model.path", x.model.path, x.model.revision)
        for x in found.runs
        if x.model.path
    ]
    samplers = [x.method.sampler.path for x in found.runs if x.method.sampler is not None]
    loaded += [Weights("method.sampler.path", path, None) for path in samplers if path]
    return list(dict.fromkeys(loaded))


def sets(found: Chosen) -> list[dict]:
    """Return the public sets of trainings and evaluations, once for each way of reading one."""
    nodes = [node for x in found.runs for node in (x.data.train, *x.data.benchmarks.values())]
    nodes += [e.eval.prompts for e in found.evaluations]
    read = [unfiltered(node) for node in public(nodes)]
    return [node for i, node in enumerate(read) if node not in read[:i]]


def model_is_here(one: Weights, offline: bool) -> None:
    """Raise UserError for a missing folder and, if `offline`, a hub model that is not cached."""
    key, path, revision = one
    if Path(path).exists():
        return
    remedy = "no such folder here; give one that all nodes see, or a hub id"
    require(not path.startswith(("/", ".", "~")) and path.count("/") <= 1, key, path, remedy)
    remedy = "HF_HUB_OFFLINE is set and the model is not in the cache; where the hub can be "
    remedy += f"reached run: hf download {path}{f' --revision {revision}' if revision else ''}"
    require(not offline or cached(path, revision), key, path, remedy)


def all_is_here(found: Chosen, offline: bool) -> None:
    """Raise UserError for a model and, if `offline`, a set that is not here."""
    for one in models(found):
        model_is_here(one, offline)
    for node in sets(found) if offline else []:
        read_from(node)


def prefetch(found: Chosen) -> None:
    """Download what is missing and read every set once. Raises UserError that names what failed."""
    wanted = [(f"model {one.path}", partial(_model, one)) for one in models(found)]
    wanted += [(f"set {node['name']}", partial(read_whole, node)) for node in sets(found)]
    fetched(wanted)
    print("all of it is here")


def _model(one: Weights) -> str:
    if Path(one.path).exists():
        return "a folder that is here"
    model_is_here(one, offline=False)
    there = cached(one.path, one.revision)
    folder = download(one.path, one.revision)
    return f"{'was here already' if there else 'downloaded'}, {folder}"
