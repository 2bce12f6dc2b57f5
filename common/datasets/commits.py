"""From what public sets were read. A revision such as `main` is whatever the cache has when a job
starts, so each run stores the commit, and a comparison names sets that runs read from two."""

from pathlib import Path

from common.datasets.hub import local_file, snapshot
from common.results.files import sha256


def read_from(node) -> dict[str, str]:
    """Name of each public set in a configuration -> HUB@COMMIT, where the commit is the cached one,
    or the hash of its file under $RLVR_DATA. A set with a path of its own is left out: the file's
    hash is part of a run's identity. Raises UserError where a set is not in the cache."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if not isinstance(node, dict):
        return {}
    if node.get("_target_") != "common.datasets.load":
        found: dict[str, str] = {}
        for child in node.values():
            found |= read_from(child)
        return found
    if node.get("path") or Path(node["hub"]).is_dir():
        return {}
    if local := local_file(node["name"], node.get("local")):
        return {node["name"]: f"sha256:{sha256(Path(local).read_bytes())}"}
    folder = snapshot(node["hub"], node["revision"], node.get("files"), offline=True)
    return {node["name"]: f"{node['hub']}@{folder.name}"}
