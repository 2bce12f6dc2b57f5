"""The exceptions whose message is meant for the user."""

from collections.abc import Iterable


class UserError(Exception):
    """Bad input, explained in one message that names key or file, value and remedy."""


class Fault(UserError):
    """A failure of a run whose settings are right, such as a dead GPU or a full disk;
    slurm/retry.py may retry it from its last checkpoint."""

    eased = False  # whether the next start asks for less memory and so may succeed


def require(condition: bool, key: str, value: object, remedy: str) -> None:
    """Raise UserError "key=value: remedy" unless `condition` holds."""
    if not condition:
        raise UserError(f"{key}={value}: {remedy}")


def one_of(key: str, value: str, known: Iterable[str], other: str = "") -> None:
    """Raise UserError unless `value` is one of `known`; `other` describes what else is accepted."""
    known = list(known)
    if value not in known:
        near = nearest(value, known)
        also = f", or {other}" if other else ""
        remedy = f"did you mean {near}?" if near else f"use one of {', '.join(known)}{also}"
        raise UserError(f"{key}={value}: {remedy}")


def unknown(key: str, value: object, known: Iterable[str], prefix: str = "") -> UserError:
    """Return the error for an unknown key; `prefix` is the text before the keys, as "optim."."""
    near = nearest(key, known := sorted(known))
    hint = f"did you mean {prefix}{near}?" if near else f"known: {', '.join(known) or 'none'}"
    return UserError(f"unknown key {prefix}{key}={value}; {hint}")


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name in `known` that a misspelt `name` may mean, in any case, by its last part."""
    import difflib  # imported only when the command is about to fail

    known = list(known)
    lower = {one.lower().rpartition("/")[2]: one for one in known}
    lower |= {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=cutoff)
    if not near:
        return None
    letters = sorted(name.lower())  # prefer a near name with the same letters: grpo for gpro
    return lower[next((one for one in near if sorted(one) == letters), near[0])]
