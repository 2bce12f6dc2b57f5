"""What Hydra refuses, as key, value and remedy in one line."""

import re
from collections.abc import Callable, Mapping, Sequence

from common.errors import UserError, nearest, one_of, unknown


def refusal(message: str, words: Sequence[str], composed: Callable[[str], Mapping]) -> UserError:
    """The error for what Hydra says of `words`. `composed(key)`: the configuration without the
    values that they set and without `key`, whose keys are those that there are."""
    found = re.search(r"Could not (?:override|delete from config)[ .]*'([^']+)'", message)
    if found:
        key = found[1]
        error = _unknown_key(key, _value(key, words), composed(key))
        return error or UserError(message)
    found = re.search(r"Could not find '([^/']+)/([^']+)'.*\n\nAvailable options", message)
    if found:
        known = re.findall(r"^\t([a-z]\w*)$", message, re.M)
        try:
            one_of(found[1], found[2], known, "the path of a .yaml file")
        except UserError as error:
            return error
    return next(filter(None, map(_unreadable, words)), UserError(message))


def _unreadable(word: str) -> UserError | None:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        word.startswith("-") or OverridesParser.create().parse_override(word)
    except HydraException:
        key, _, value = word.partition("=")
        return UserError(f"{key}={value}: cannot be read; close its brackets, or quote the text")
    return None


def _value(key: str, words: Sequence[str]) -> str:
    given = dict(word.lstrip("+~").partition("=")[::2] for word in words)
    return given.get(key, "")


def _unknown_key(key: str, value: str, node) -> UserError | None:
    """The error for a dotted key that the configuration has not, with the nearest that it has."""
    before: list[str] = []
    parts = re.split(r"[./]", key)
    for i, part in enumerate(parts):
        if not isinstance(node, Mapping):
            return None
        if part not in node:
            near, rest = nearest(part, map(str, node)), parts[i + 1 :]
            prefix = "".join(f"{one}." for one in before)
            if near is None or not rest:
                return unknown(part, value, map(str, node), prefix)
            meant = ".".join([near, *rest])
            return UserError(f"unknown key {key}={value}; did you mean {prefix}{meant}?")
        before.append(part)
        node = node[part]
    return None
