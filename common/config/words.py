"""Takes the words of a command line (its arguments, key=value) apart."""

import re
from collections.abc import Iterable, Mapping

from common.errors import UserError, require, unknown


def some_of(key: str, value: str, known: Iterable[str]) -> list[str]:
    """Return the names in `value`, A,B. Raises UserError for a name that is not in `known`."""
    given, known = [name for name in value.split(",") if name], list(dict.fromkeys(known))
    unknown = ",".join(name for name in given if name not in known)
    require(not unknown, key, unknown, f"use one or several of {', '.join(known)}")
    return given


def pairs(words: Iterable[str]) -> dict[str, str]:
    """Return the words as a dict; a key's last value wins. Raises UserError for one without "="."""
    given = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{word}: options are given as key=value (see --help)")
        given[key] = value
    return given


def split(words: Iterable[str], defaults: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return (a command's options: `defaults` with the values that `words` give them; the other
    words, which are for Hydra). Raises UserError for an empty value: `row=$ROW` may be unset."""
    given = dict(defaults)
    others = []
    for word in words:
        key, _, value = word.partition("=")
        if key in defaults:
            require(value != "", key, "", f"is empty; give {key}=VALUE or leave it out")
            given[key] = value
        else:
            others.append(word)
    return given, others


def options(words: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the options as `split` does. Raises UserError for any other word."""
    given, others = split(words, defaults)
    for key, value in pairs(others).items():
        raise unknown(key, value, defaults)
    return given


def for_hydra(words: Iterable[str]) -> list[str]:
    """Return the words with `++` before `verl.KEY=VALUE`. Raises UserError without a value."""
    given = list(words)
    for word in given:
        if not re.match(r"[^-].*=|~", word):
            raise UserError(f"{word}: options are given as key=value, without dashes (see --help)")
    return [f"++{word}" if word.startswith("verl.") else word for word in given]


def quoted(word: str) -> str:
    """Return the word with its value in quotes if Hydra could not read it: a value with a letter
    outside ASCII, `=` or `#`, or a path with parentheses or brackets."""
    key, _, value = word.partition("=")
    odd = r"[^\x00-\x7f]|[=#]"
    odd += r"|[()[\]]" if value.startswith(("/", "./", "../")) else ""
    if not re.search(odd, value) or value[0] in "\"'[{":
        return word
    return f"{key}='" + value.replace("'", r"\'") + "'"
