"""What a verdict depends on: the source of its verifier and the versions of its libraries."""

import hashlib
from importlib.metadata import version

from common.config.sources import imports, sources

LIBRARIES = {  # a module that verifiers import: the names of the distributions behind it
    "math_verify": ("math-verify", "latex2sympy2_extended", "sympy"),
    "sympy": ("sympy",),
    "lm_eval": ("lm-eval",),
    "langdetect": ("langdetect",),
    "nltk": ("nltk",),
}


def fingerprint(verifier: dict) -> dict:
    """Return {"sha256": hash of the verifier's `sources`, "libraries": distribution -> version, for
    the LIBRARIES that they import}, wherever the files are."""
    files = sources(verifier)
    lines = sorted(f"{f.name} {hashlib.sha256(f.read_bytes()).hexdigest()}\n" for f in files)
    tops = {name.partition(".")[0] for file in files for name in imports(file)}
    used = {one for top in tops for one in LIBRARIES.get(top, ())}
    return {
        "sha256": hashlib.sha256("".join(lines).encode()).hexdigest(),
        "libraries": {one: version(one) for one in sorted(used)},
    }
