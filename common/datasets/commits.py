"""From what public sets were read. A revision such as `main` is whatever the cache has when a job
starts, so each run stores the commit, and a comparison names sets that runs read from two."""

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
