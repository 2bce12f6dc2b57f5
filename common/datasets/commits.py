"""The sources from which runs read public sets. A revision such as `main` means whatever the cache
holds at the start, so each run stores the commit, and numbers of two commits are not compared."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from common.config.resolve import resolve
from common.datasets.hub import local_file, snapshot
from common.errors import UserError
from common.results.files import sha256


def public(node) -> Iterator[dict]:
    """Yield the nodes of the public sets in a configuration, also inside parts and mixtures."""
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
    """Return set -> source -> runs for sets of several sources; `found`: run -> set -> source."""
    sources: dict[str, dict[str, list[str]]] = {}
    for run, sets in found.items():
        for name, what in sets.items():
            sources.setdefault(name, {}).setdefault(what, []).append(run)
    return {name: of for name, of in sources.items() if len(of) > 1}


def listed(of: dict[str, list[str]]) -> str:
    return "; ".join(f"{what}: {', '.join(runs)}" for what, runs in of.items())


def fetched(wanted: Iterable[tuple[str, Callable[[], str]]]) -> None:
    """Call each function, which downloads what its name says, and print what it returns. Raises
    UserError at the end, naming what could not be downloaded or read."""
    failed = []
    for name, get in wanted:
        try:
            print(f"{name}: {get()}", flush=True)
        except UserError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed.append(name)
    if failed:
        raise UserError(f"failed to prefetch: {', '.join(dict.fromkeys(failed))}")


def read_whole(node: dict) -> str:
    """Download a missing public set, read its rows as a job would; return count and source."""
    number = len(resolve(node, node["name"])())
    return f"{number} prompts, {read_from(node).get(node['name'], node.get('path') or node['hub'])}"


def read_from(node) -> dict[str, str]:
    """Return public set -> HUB@COMMIT with the cached commit, or its file's hash under $RLVR_DATA;
    a local path is part of a run's identity instead. Raises UserError if a set is not cached."""
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
