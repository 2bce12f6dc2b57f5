"""The one exception a user is meant to read: it names the key or file, the value and the remedy."""

from collections.abc import Iterable


class UserError(Exception):
    """Bad input, said in one message; commands print it without a traceback and exit with 2."""


class Fault(UserError):
    """What befell a run whose settings are right, such as a dead GPU or a full disk. A job may try
    it again from its last checkpoint (slurm/retry.py)."""

    eased = False  # the next start asks for less memory, so it may succeed where this one did not


def require(condition: bool, key: str, value: object, remedy: str) -> None:
    """Raise UserError "key=value: remedy" unless `condition` holds."""
    if not condition:
        raise UserError(f"{key}={value}: {remedy}")


def unknown(key: str, value: object, known: Iterable[str], prefix: str = "") -> UserError:
    """The error for a key that is none of `known`: "did you mean" the nearest, or all of them.

    `prefix` is what stands before the keys: "optim." of optim.lr.
    """
    import difflib  # only on the way out

    near = difflib.get_close_matches(key, known := sorted(known), n=1)
    hint = f"did you mean {prefix}{near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
    return UserError(f"unknown key {prefix}{key}={value}; {hint}")
