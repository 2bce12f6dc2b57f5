"""The words of a command line, key=value: the one place that takes them apart."""

from collections.abc import Iterable, Mapping

from common.errors import UserError, require, unknown


def pairs(words: Iterable[str]) -> dict[str, str]:
    """The words as a dict; of a key that is given twice, the last value. Raises UserError for a
    word without "="."""
    given = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{word}: options are given as key=value (see --help)")
        given[key] = value
    return given


def split(words: Iterable[str], defaults: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """(a command's options: `defaults`, with the values that `words` give them; the other words,
    in order).

    The others are for Hydra, whose words may also be `~key` or `--multirun`. An option without "="
    has the value "".
    """
    given = dict(defaults)
    others = []
    for word in words:
        key, _, value = word.partition("=")
        if key in defaults:
            given[key] = value
        else:
            others.append(word)
    return given, others


def options(words: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """As `split`, of a command that takes no other words. Raises UserError for one of another key,
    with the nearest known one, for one without a value, and for a word without "="."""
    given = pairs(words)
    for key, value in given.items():
        if key not in defaults:
            raise unknown(key, value, defaults)
        require(value != "", key, "", f"is empty; give {key}=VALUE or leave it out")
    return {**defaults, **given}


def for_hydra(words: Iterable[str]) -> list[str]:
    """The words as Hydra takes them: `verl.KEY=VALUE` adds to a block that is empty in
    configs/base.yaml, which Hydra wants to see marked."""
    return [f"++{word}" if word.startswith("verl.") else word for word in words]
