"""Refuses on other systems, before anything runs, what only Linux has."""

import platform

from common.errors import require


def need_linux(key: str, value: str, remedy: str) -> None:
    """Raise UserError "key=value: needs Linux ..." with `remedy` on any other system."""
    this = platform.system().replace("Darwin", "macOS")
    require(this == "Linux", key, value, f"needs Linux, and this is {this}; {remedy}")
