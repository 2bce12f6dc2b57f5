"""From what public sets were read. A revision such as `main` is whatever the cache has when a job
starts, so each run stores the commit, and numbers of sets that runs read from two are not
compared."""

from collections.abc import Iterator
from pathlib import Path

from common.datasets.hub import local_file, snapshot
from common.results.files import sha256


def public(node) -> Iterator[dict]:
    """The nodes of the public sets in a configuration; a part of a set and a mixture have them
    inside."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if not isinstance(node, dict):
        return
    if node.get("_target_") == "common.datasets.load":
        yield node
        return
    for child in node.values():
        yield from public(child)


def several(found: dict[str, dict[str, str]]) -> dict[str, dict[str, list[str]]]:
    """Set -> what it was read from -> runs, of the sets that runs (run -> set -> what) read from
    two commits or files."""
    sources: dict[str, dict[str, list[str]]] = {}
    for run, sets in found.items():
        for name, what in sets.items():
            sources.setdefault(name, {}).setdefault(what, []).append(run)
    return {name: of for name, of in sources.items() if len(of) > 1}


def listed(of: dict[str, list[str]]) -> str:
    """One set of `several`, for a message."""
    return "; ".join(f"{what}: {', '.join(runs)}" for what, runs in of.items())


def read_from(node) -> dict[str, str]:
    """Name of each public set in a configuration -> HUB@COMMIT, where the commit is the cached one,
    or the hash of its file under $RLVR_DATA. A set with a path of its own is left out: the file's
    hash is part of a run's identity. Raises UserError where a set is not in the cache."""
    found: dict[str, str] = {}
    for one in public(node):
        if one.get("path") or Path(one["hub"]).is_dir():
            continue
        if local := local_file(one["name"], one.get("local")):
            found[one["name"]] = f"sha256:{sha256(Path(local).read_bytes())}"
        else:
            folder = snapshot(one["hub"], one["revision"], one.get("files"), offline=True)
            found[one["name"]] = f"{one['hub']}@{folder.name}"
    return found
