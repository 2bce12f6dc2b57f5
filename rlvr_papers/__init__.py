"""The library of common/api.py under a name that nobody else uses, and the command `rlvr`.

The distribution installs the packages `common`, `papers`, `configs` and `slurm`. Your project may
use these names too, so this package raises ImportError at once if another `common` comes first.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import common

CLASH = None
if Path(common.__file__ or "").resolve().parent.parent != Path(__file__).resolve().parent.parent:
    CLASH = (
        f"rlvr_papers needs its own package `common`, and {common.__file__ or common} comes first; "
        "rename that one, or start outside its folder (the command `rlvr` does not look there)"
    )
    if "verl" not in sys.modules:  # which would hide it; verl.py raises it later
        raise ImportError(CLASH)

if TYPE_CHECKING:
    from common.api import *  # noqa: F403


def __getattr__(name: str):
    if CLASH:
        raise ImportError(CLASH)
    # imported only when a name is asked for: the command `rlvr` must not wait for torch
    if not name.startswith("__"):
        from common import api

        if name in api.__all__:
            return getattr(api, name)
    raise AttributeError(f"module 'rlvr_papers' has no attribute {name!r}")


def __dir__() -> list[str]:
    from common import api

    return [*globals(), *api.__all__]
