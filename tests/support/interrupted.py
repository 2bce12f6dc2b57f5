"""A run that is stopped by what it calls, as by the end of its process."""

from collections.abc import Callable


class Stopped(BaseException):
    """What a hook raises; no `except Exception` holds it up."""


def interrupted(run: Callable, *given, **named) -> None:
    """Call `run`, which must raise Stopped, and forget its frames, which hold its folder's lock."""
    try:
        run(*given, **named)
    except Stopped:
        return
    raise AssertionError("it ended by itself")
