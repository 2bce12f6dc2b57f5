"""A module that stands in for the GPUs of a launch, for tests on machines without one
(tests/support/verl_cpu); the environment variable STAND_IN names it. It has `place`, `settings` and
`adapt`, which backend.py and worker.py call, MODULES, which verl imports in each of its processes,
and PASSED, the variables of the environment that they need."""

import os
from types import ModuleType

from common.config.resolve import module

STAND_IN = "RLVR_STAND_IN"


def stand_in() -> ModuleType | None:
    name = os.environ.get(STAND_IN)
    return module({"_target_": f"{name}:"}) if name else None
