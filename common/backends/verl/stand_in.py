"""A module that stands in for the GPUs of a launch in tests (tests/support/verl_cpu); the
environment variable STAND_IN names it. It has `place`, `settings`, `adapt`, MODULES (which verl
imports in each of its processes) and PASSED (the environment variables that they need)."""

import os
from types import ModuleType

from common.config.resolve import module

STAND_IN = "RLVR_STAND_IN"


def stand_in() -> ModuleType | None:
    name = os.environ.get(STAND_IN)
    return module({"_target_": f"{name}:"}) if name else None
