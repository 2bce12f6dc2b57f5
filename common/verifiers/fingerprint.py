"""What a verdict depends on: the source of its verifier and the versions of its libraries."""

import ast
import hashlib
from importlib.metadata import version
from pathlib import Path

from common.config.compose import ROOT
from common.config.resolve import module

LIBRARIES = {  # a module that verifiers import: the distributions behind it, by their names
    "math_verify": ("math-verify", "latex2sympy2_extended", "sympy"),
    "sympy": ("sympy",),
    "lm_eval": ("lm-eval",),
    "langdetect": ("langdetect",),
    "nltk": ("nltk",),
}


def fingerprint(verifier: dict) -> dict:
    """{"sha256": of the verifier's `sources`, "libraries": distribution -> version, of those that
    they import}. Neither depends on where the files are."""
    files = sources(verifier)
    lines = sorted(f"{f.name} {hashlib.sha256(f.read_bytes()).hexdigest()}\n" for f in files)
    tops = {name.partition(".")[0] for file in files for name in _imports(file)}
    used = {one for top in tops for one in LIBRARIES.get(top, ())}
    return {
        "sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "libraries": {one: version(one) for one in sorted(used)},
    }


def sources(verifier: dict) -> set[Path]:
    """The files that a verifier is made of: the module of its `_target_`, all of the folder where
    that is a package, the same of each of its `parts`, and whatever these import, one from the
    other, of common/ or of a package of the user's own."""
    wanted, roots = [], {"common": ROOT}  # first name of a module: the folder that it is below
    for entry in map(module, (verifier, *verifier.get("parts", ()))):
        wanted.append(file := Path(entry.__file__))
        for folder in map(Path, getattr(entry, "__path__", ())):
            wanted += folder.rglob("*.py")  # also those that are run, not imported
        top, *below = entry.__name__.split(".")
        roots[top] = file.parents[len(below) + (file.name == "__init__.py")]
    files = set()
    while wanted:
        if (file := wanted.pop()) not in files:
            files.add(file)
            wanted += filter(None, (_file(name, roots) for name in _imports(file)))
    return files


def _imports(file: Path) -> set[str]:
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
