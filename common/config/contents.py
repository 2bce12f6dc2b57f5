"""Hashes of the files that a configuration only names: local data, weights, a user's functions. A
changed file makes another run. Left out: hub ids, whose content a revision fixes; results."""

import hashlib
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from common.config.files import ROOT
from common.config.resolve import module
from common.errors import UserError

PATHS = ("path", "hub", "tokenizer")  # keys whose value may be a local file or folder
OURS = ("common", "papers", "slurm")  # packages whose state the commit fixes
LARGE = 1 << 20  # bytes; the hashes of files from this size on are kept for later processes


def contents(config: dict, results_dir: str) -> dict[str, str]:
    """Return dotted key -> SHA-256 of the files behind each local path and each `_target_` outside
    this repository; {} if `config` names none. A path that does not exist is left to its reader."""
    inside = [Path(folder).resolve() for folder in (results_dir, "results")]
    return {
        key: digest
        for key, value in _leaves(config)
        if isinstance(value, str) and (digest := _digest(key, value, inside)) is not None
    }


def _leaves(node, prefix: str = ""):
    if not isinstance(node, dict | list):
        yield prefix, node
        return
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))


def _digest(key: str, value: str, inside: list[Path]) -> str | None:
    name = key.rpartition(".")[2]
    if name == "_target_":
        return None if value.partition(".")[0] in OURS else _code(value)
    if name not in PATHS or not value or not Path(value).exists():
        return None
    place = Path(value).resolve()
    if any(place.is_relative_to(folder) for folder in inside):
        return None
    return _file(place) if place.is_file() else _folder(place)


def _code(target: str) -> str | None:
    """Return the hash of a user's own function's files; None for others and broken ones."""
    node = {"_target_": target}
    try:
        file = Path(module(node).__file__ or "")
    except Exception:  # the user's module may raise anything
        return None
    if "site-packages" in file.parts or not file.is_file():
        return None
    from common.config.sources import sources  # needed for own functions only

    own = sorted(path for path in sources(node) if not path.is_relative_to(ROOT / "common"))
    return _joined((path.name, _file(path)) for path in own)


def _folder(place: Path) -> str:
    files = sorted(f for f in place.rglob("*") if f.is_file() and not f.name.startswith("."))
    return _joined((str(f.relative_to(place)), _file(f)) for f in files)


def _joined(hashes) -> str:
    text = "".join(f"{digest} {name}\n" for name, digest in hashes)
    return hashlib.sha256(text.encode()).hexdigest()


def _file(path: Path) -> str:
    stat = path.stat()
    return _hashed(path.resolve(), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _hashed(path: Path, size: int, changed: int) -> str:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlvr_papers"
    kept = cache / "sha256" / hashlib.sha256(f"{path} {size} {changed}".encode()).hexdigest()
    if size >= LARGE and kept.is_file() and (digest := kept.read_text()):  # empty: a power cut
        return digest
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if size >= LARGE:
        with suppress(OSError):  # the kept hash only saves time
            kept.parent.mkdir(parents=True, exist_ok=True)
            temporary = kept.with_name(f".{kept.name}.{os.getpid()}.tmp")
            temporary.write_text(digest)
            os.replace(temporary, kept)
    return digest
