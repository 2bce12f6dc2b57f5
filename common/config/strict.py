"""A configuration as a frozen dataclass, or one `UserError` naming key, value and remedy."""

import difflib
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from common.errors import UserError

T = TypeVar("T")


def strict(schema: type[T], config: DictConfig | dict) -> T:
    """`config` as a frozen `schema`, every `${...}` resolved.

    Raises UserError for an unknown key (with the nearest known one), a missing value or a wrong
    type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        config = config if isinstance(config, DictConfig) else OmegaConf.create(config)
        values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        reason = str(error).split("\n")[0]
        raise UserError(f"{error.full_key or 'config'}: {reason}; give it a value") from error
    _refuse_unknown_keys(schema, values, "")
    try:
        return TypeAdapter(schema).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if str(part) != schema.__name__)
        raise UserError(f"{key}={first['input']!r}: {first['msg']}") from error


def _refuse_unknown_keys(schema: Any, values: dict, prefix: str) -> None:
    hints = get_type_hints(schema)
    for key, value in values.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = (
                f"did you mean {prefix}{near[0]}?" if near else f"known: {', '.join(sorted(hints))}"
            )
            raise UserError(f"unknown key {prefix}{key}={value}; {hint}")
        union = get_args(hints[key]) if get_origin(hints[key]) is UnionType else (hints[key],)
        for inner in filter(is_dataclass, union):
            if isinstance(value, dict):
                _refuse_unknown_keys(inner, value, f"{prefix}{key}.")
