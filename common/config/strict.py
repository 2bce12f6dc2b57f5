"""Turns values into a frozen dataclass, or raises one `UserError` with key, value and remedy."""

import re
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from common.errors import UserError, unknown

T = TypeVar("T")
REMEDIES = {  # pydantic's name of a violated range: our remedy
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be >= {ge:g}",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be <= {le:g}",
    "too_short": "give at least {min_length}",
    "string_type": """is not read as text; quote it: "{key}='TEXT'\"""",
    "string_too_short": "is empty; give a value",
    "literal_error": "use {expected}",
}


def strict(schema: type[T], config: DictConfig | dict) -> T:
    """Return `config` as a frozen `schema`, with every `${...}` resolved. Raises UserError for an
    unknown key and for a missing, wrongly typed or out-of-range value."""
    try:
        config = config if isinstance(config, DictConfig) else OmegaConf.create(config)
        values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        reason = str(error).split("\n")[0]
        missing = re.search(r"Missing mandatory value: (\S+)", reason)
        of_another = "interpolation" in reason  # this value is made of the missing one
        key = missing[1] if missing and of_another else error.full_key or "config"
        remedy = f"is missing; give {key}=VALUE" if missing else f"{reason}; give it a value"
        raise UserError(f"{key}=: {remedy}") from error
    return checked(schema, values)


def checked(schema: type[T], values: dict) -> T:
    """Return plain `values` as a frozen `schema`, with the checks and errors of `strict`."""
    from pydantic import ValidationError

    try:
        return _adapter(schema).validate_python([values])[0]  # type: ignore[arg-type]
    except ValidationError as error:
        raise _in_our_words(schema, error.errors()) from error


@cache
def _adapter(schema: type):
    """Return pydantic's check of a list of `schema`: for a list, not for a dataclass, it accepts a
    `config` from outside, and applies it to all dataclasses inside."""
    from pydantic import TypeAdapter

    return TypeAdapter(list[schema], config={"extra": "forbid"})  # type: ignore[valid-type]


def _in_our_words(schema: Any, errors: list) -> UserError:
    """Return the first error, or an unknown key, often the reason of others, as a UserError."""
    extra = "unexpected_keyword_argument"
    error = next((e for e in errors if e["type"] == extra), errors[0])
    _, *path = error["loc"]
    if error["type"] == extra:
        prefix = "".join(f"{part}." for part in path[:-1])
        return unknown(path[-1], error["input"], _keys(schema, path[:-1]), prefix)
    key = ".".join(map(str, path))
    if error["type"] == "missing":  # its input is all that was given
        return UserError(f"{key}=: is missing; give it a value")
    if error["type"] not in REMEDIES:
        return UserError(f"{key}={error['input']!r}: {error['msg']}")
    remedy, bounds = REMEDIES[error["type"]], error.get("ctx", {})
    if isinstance(bounds.get("gt"), int):  # a whole number above 0 is at least 1
        remedy = f"must be at least {bounds['gt'] + 1}"
    return UserError(f"{key}={error['input']}: {remedy.format(key=key, **bounds)}")


def _keys(schema: Any, path: list) -> list[str]:
    """Return the keys of the dataclass at `path`, through lists, dicts and `... | None`."""
    for part in path:
        schema = get_type_hints(schema)[part] if is_dataclass(schema) else get_args(schema)[-1]
        if get_origin(schema) is UnionType:
            schema = next(branch for branch in get_args(schema) if is_dataclass(branch))
    return [field.name for field in fields(schema)]
