"""How many prompts a public set has, counted once for each commit: some sets take minutes."""

import json
from contextlib import suppress
from pathlib import Path

from common.config.contents import remembered
from common.config.resolve import resolve
from common.datasets.commits import read_from
from common.results.files import sha256, write


def counted(node: dict) -> int:
    """The prompts of a set before a `subset` is drawn. Raises UserError as `load` does: where the
    number is not what the configuration states, too."""
    node = whole(node)
    source = read_from(node)
    said = json.dumps([node, source, _code()], sort_keys=True)
    place = remembered("prompts", sha256(said.encode()))
    if source and place.is_file():
        return int(place.read_text())
    number = len(resolve(node, node["name"])())
    with suppress(OSError):  # it only saves time
        write(place, str(number))
    return number


def whole(node: dict) -> dict:
    """The node without what does not change how many prompts there are: the markup does where long
    prompts are dropped."""
    node = {key: value for key, value in node.items() if key not in ("subset", "seed")}
    return node if node.get("max_prompt_tokens") else node | {"chat": "plain"}


def _code() -> list[str]:
    """Of what reads sets: a count by other code is not remembered."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [sha256(file.read_bytes()) for file in files]
