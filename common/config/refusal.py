"""Turn what Hydra refuses into an error with key, value and remedy in one line."""

import re
from collections.abc import Callable, Mapping, Sequence

from common.errors import UserError, nearest, one_of, unknown


def refusal(message: str, words: Sequence[str], composed: Callable[[str], Mapping]) -> UserError:
    """Return the error for Hydra's `message` about `words`. `composed(key)` returns the
    configuration without the values that the words set and without the word for `key`: its keys are
    the known ones."""
    found = re.search(r"Could not (?:override|delete from config)[ .]*'([^']+)'", message)
    if found:
        key = found[1]
        error = _unknown_key(key, _value(key, words), composed(key))
        return error or UserError(message)
    found = re.search(r"Could not find '([^/']+)/([^']+)'", message)
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
    """Return the error for a dotted key that the configuration `node` lacks, with the nearest key
    that it has; None if no part of the key is found to be unknown."""
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
