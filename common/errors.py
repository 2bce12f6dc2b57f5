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


def one_of(key: str, value: str, known: Iterable[str], other: str = "") -> None:
    """Raise UserError unless `value` is one of `known`; `other` says what else may stand there."""
    known = list(known)
    if value not in known:
        near = nearest(value, known)
        also = f", or {other}" if other else ""
        remedy = f"did you mean {near}?" if near else f"use one of {', '.join(known)}{also}"
        raise UserError(f"{key}={value}: {remedy}")


def unknown(key: str, value: object, known: Iterable[str], prefix: str = "") -> UserError:
    """The error for a key that is none of `known`: "did you mean" the nearest, or all of them.

    `prefix` is what stands before the keys: "optim." of optim.lr.
    """
    near = nearest(key, known := sorted(known))
    hint = f"did you mean {prefix}{near}?" if near else f"known: {', '.join(known) or 'none'}"
    return UserError(f"unknown key {prefix}{key}={value}; {hint}")


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name of `known` that a misspelt `name` may stand for, in whatever case; None if none."""
    import difflib  # only on the way out

    lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=cutoff)
    if not near:
        return None
    letters = sorted(name.lower())  # of equally near ones, one with the same letters: gpro, grpo
    return lower[next((one for one in near if sorted(one) == letters), near[0])]
