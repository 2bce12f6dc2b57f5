"""From a configuration's `_target_` to the function, its arguments bound and checked.

A `_target_` is a dotted path, or, for functions of the user's own, module:function or
path/to/file.py:function, the path from the folder where the command starts.
"""

import importlib
import importlib.util
import inspect
import sys
import zlib
from pathlib import Path
from types import ModuleType

from common.errors import UserError, require

NUMBERS = {"float": (int, float), "int": (int,), "bool": (bool,)}  # what an annotation takes


def named(node: dict, key: str):
    """What `node["_target_"]` names: a function, or a constant as it stands. Raises UserError if
    the path cannot be imported."""
    target = node.get("_target_")
    require(isinstance(target, str), f"{key}._target_", target, "give a dotted path")
    try:
        if ":" in target:
            return getattr(module(node), target.rpartition(":")[2])
        from hydra.utils import get_object

        return get_object(target)
    except Exception as error:
        raise UserError(f"{key}._target_={target}: cannot be imported ({error})") from error


def resolve(node: dict, key: str, supplied: tuple[str, ...] = (), open_ended: bool = False):
    """The function that `node["_target_"]` names, with the other entries bound as keyword
    arguments.

    The caller gives those named in `supplied` at every call, or, `open_ended`, any that are
    missing. Raises UserError if the path cannot be imported, or an argument is unknown, missing or
    of another type than its annotation, so that a typing mistake in a method file is found before
    the first rollout.
    """
    from functools import partial

    function, target = named(node, key), node["_target_"]
    require(callable(function), f"{key}._target_", target, "is not a function")
    arguments = {name: value for name, value in node.items() if name != "_target_"}
    parameters = inspect.signature(function).parameters
    known = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name, value in arguments.items():
        require(
            name in known, f"{key}.{name}", value, f"unknown argument of {target}; it takes {known}"
        )
        kind = getattr(parameters[name].annotation, "__name__", parameters[name].annotation)
        fits = type(value) in NUMBERS.get(kind, (type(value),))
        require(fits, f"{key}.{name}", value, f"{target} takes a {kind} (YAML: 1.0e-5, not 1e-5)")
    missing = [
        name
        for name in known
        if name not in (*arguments, *supplied) and parameters[name].default is inspect._empty
    ]
    require(open_ended or not missing, key, target, f"needs a value for {missing}")
    return partial(function, **arguments)


def module(node: dict) -> ModuleType:
    """The module of the function that `node["_target_"]` names: a verifier has more there than the
    function (`reference`, `example`, `PRELOAD`)."""
    target = node["_target_"]
    if ":" not in target:
        return importlib.import_module(target.rpartition(".")[0])
    home = target.rpartition(":")[0]
    return _of_file(Path(home)) if home.endswith(".py") else importlib.import_module(home)


def _of_file(path: Path) -> ModuleType:
    """A Python file as a module, once a process."""
    path = path.resolve()
    name = f"{path.stem}_{zlib.crc32(str(path).encode()):08x}"  # no other module's
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
