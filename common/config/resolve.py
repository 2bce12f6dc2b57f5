"""Find the function that a configuration's `_target_` names, bind its arguments and check them.

A `_target_` is a dotted path or, for functions of the user's own, module:function or
path/to/file.py:function. The file's path starts at the folder in which the command is started.
"""

import importlib
import importlib.util
import inspect
import sys
import zlib
from pathlib import Path
from types import ModuleType

from common.errors import UserError, require

NUMBERS = {"float": (int, float), "int": (int,), "bool": (bool,)}  # annotation: accepted types


def import_target(target: object, key: str):
    """Return what the `_target_` of `key` names. Raises UserError if it cannot be imported."""
    if not isinstance(target, str):
        raise UserError(f"{key}={target}: give a dotted path")
    try:
        if ":" in target:
            return getattr(module({"_target_": target}), target.rpartition(":")[2])
        from hydra.utils import get_object

        return get_object(target)
    except Exception as error:
        raise UserError(f"{key}={target}: cannot be imported ({error})") from error


def resolve(node: dict, key: str, supplied: tuple[str, ...] = (), open_ended: bool = False):
    """Return the function that `node["_target_"]` names, with the other entries bound as keyword
    arguments. The caller gives those in `supplied` at every call or, with `open_ended`, any that
    are missing. Raises UserError for a path that cannot be imported and for an unknown, missing or
    wrongly typed argument."""
    from functools import partial

    target = node.get("_target_")
    function = import_target(target, f"{key}._target_")
    require(callable(function), f"{key}._target_", target, "must be a function")
    arguments = {name: value for name, value in node.items() if name != "_target_"}
    parameters = inspect.signature(function).parameters
    known = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name, value in arguments.items():
        remedy = f"unknown argument of {target}; it takes {known}"
        require(name in known, f"{key}.{name}", value, remedy)
        kind = getattr(parameters[name].annotation, "__name__", parameters[name].annotation)
        fits = type(value) in NUMBERS.get(kind, (type(value),))
        require(fits, f"{key}.{name}", value, f"{target} takes a {kind} (YAML: 1.0e-5, not 1e-5)")
    missing = [
        name
        for name in known
        if name not in (*arguments, *supplied) and parameters[name].default is inspect._empty
    ]
    given = f"; each call gives it {', '.join(supplied)}" if supplied else ""
    require(open_ended or not missing, key, target, f"needs a value for {missing}{given}")
    return partial(function, **arguments)


def module(node: dict) -> ModuleType:
    """Return the module of the function that `node["_target_"]` names."""
    target = node["_target_"]
    if ":" not in target:
        return importlib.import_module(target.rpartition(".")[0])
    home = target.rpartition(":")[0]
    return _of_file(Path(home)) if home.endswith(".py") else importlib.import_module(home)


def _of_file(path: Path) -> ModuleType:
    path = path.resolve()
    name = f"{path.stem}_{zlib.crc32(str(path).encode()):08x}"  # no other module has this name
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made
        try:
            spec.loader.exec_module(made)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
