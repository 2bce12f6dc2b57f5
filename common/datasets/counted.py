"""The number of prompts of a public set, counted once for each commit: some sets take minutes."""

import json
from contextlib import suppress
from pathlib import Path

from common.config.contents import remembered
from common.config.resolve import resolve
from common.datasets.commits import read_from
from common.results.files import sha256, write


def counted(node: dict) -> int:
    """Return the number of prompts of a set before a `subset` is drawn. Raises UserError as `load`
    does, also if the number is not the one that the configuration states."""
    node = whole(node)
    source = read_from(node)
    said = json.dumps([node, source, _code()], sort_keys=True)
    place = remembered("prompts", sha256(said.encode()))
    if source and place.is_file():
        return int(place.read_text())
    number = len(resolve(node, node["name"])())
    with suppress(OSError):  # the kept count only saves time
        write(place, str(number))
    return number


def whole(node: dict) -> dict:
    """Return the node without what does not change the number of prompts. The chat markup is kept
    only where long prompts are dropped, since it changes their length."""
    node = {key: value for key, value in node.items() if key not in ("subset", "seed")}
    return node if node.get("max_prompt_tokens") else node | {"chat": "plain"}


def _code() -> list[str]:
    """Return the hashes of the code that reads sets: a count by other code is not reused."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [sha256(file.read_bytes()) for file in files]
