"""Which files a function that a configuration names is made of."""

import ast
from pathlib import Path

from common.config.files import ROOT
from common.config.resolve import module


def sources(node: dict) -> set[Path]:
    """The files that a function is made of: the module of its `_target_`, all of the folder where
    that is a package, the same of each of its `parts` (a sum of verifiers), and whatever these
    import, one from the other, of common/ or of a package of the user's own."""
    wanted, roots = [], {"common": ROOT}  # first name of a module: the folder that it is below
    for entry in map(module, (node, *node.get("parts", ()))):
        wanted.append(file := Path(entry.__file__))
        for folder in map(Path, getattr(entry, "__path__", ())):
            wanted += folder.rglob("*.py")  # also those that are run, not imported
        top, *below = entry.__name__.split(".")
        roots[top] = file.parents[len(below) + (file.name == "__init__.py")]
    files = set()
    while wanted:
        if (file := wanted.pop()) not in files:
            files.add(file)
            wanted += filter(None, (_file(name, roots) for name in imports(file)))
    return files


def imports(file: Path) -> set[str]:
    """The modules that a file imports, in functions too; of `from a import b` both a and a.b."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def _file(name: str, roots: dict[str, Path]) -> Path | None:
    """The file of a module below `roots`; None for any other, and for a function's name. By paths,
    not by importing: ifeval's checker takes seconds."""
    parts = name.split(".")
    if parts[0] not in roots:
        return None
    path = roots[parts[0]].joinpath(*parts)
    files = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next(filter(Path.is_file, files), None)
