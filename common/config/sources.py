"""Finds the source files of a function that a configuration names."""

import ast
from pathlib import Path

from common.config.files import ROOT
from common.config.resolve import module


def sources(node: dict) -> set[Path]:
    """Return the source files of a function and of each of its `parts` (a sum of verifiers): its
    module, or the whole folder of a package, and all modules of common/ or of the user's package
    that these import, directly or through each other."""
    wanted, roots = [], {"common": ROOT}  # top-level name: the folder that holds it
    for entry in map(module, (node, *node.get("parts", ()))):
        wanted.append(file := Path(entry.__file__))
        for folder in map(Path, getattr(entry, "__path__", ())):
            wanted += folder.rglob("*.py")  # also files that are run, not imported
        top, *below = entry.__name__.split(".")
        roots[top] = file.parents[len(below) + (file.name == "__init__.py")]
    files = set()
    while wanted:
        if (file := wanted.pop()) not in files:
            files.add(file)
            wanted += filter(None, (_file(name, roots) for name in imports(file)))
    return files


def imports(file: Path) -> set[str]:
    """Return the modules that a file imports anywhere; `from a import b` gives both a and a.b."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def _file(name: str, roots: dict[str, Path]) -> Path | None:
    """Return the file of a module below `roots`, or None, without a slow import."""
    parts = name.split(".")
    if parts[0] not in roots:
        return None
    path = roots[parts[0]].joinpath(*parts)
    files = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next(filter(Path.is_file, files), None)
