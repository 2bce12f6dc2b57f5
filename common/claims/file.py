"""Reads and checks `papers/<p>/claims.yaml`; common/claims/judge.py says what predicates mean."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from common.claims.forms import Form, form_of
from common.config.strict import checked
from common.errors import UserError, require

SCOPES = ("published", "laptop", "cluster")
PUBLISHED, LAPTOP, CLUSTER = SCOPES
PRIMARY, REST = "primary", "rest"  # claim families: Holm corrects the first


@dataclass(frozen=True)
class About:
    """The first entry of a file, which describes the paper."""

    paper: str
    arxiv: str
    brief: str  # its idea in a few words
    says: str  # its claim in a sentence
    figures: dict[str, str] = field(default_factory=dict)  # file name without .png -> caption


@dataclass(frozen=True)
class Claim:
    """A claim with what decides it in each scope; None where it is not made there."""

    id: str
    claim: str
    source: str
    published: Form | None = None
    laptop: Form | None = None
    # Cluster rows repeat the printed ones, so this is `published` where the file leaves it out;
    # `cluster: null` says that no run can decide the claim.
    cluster: Form | None = None
    section: str = ""  # the heading above it
    family: str = REST
    headline: str = ""  # the claim in short, where a first screen shows it
    premise: str = ""  # id of the claim that this one rests on
    ours: Literal[True] = False  # type: ignore[assignment]  # left out: the paper's own sentence

    def predicate(self, scope: str) -> Form | None:
        return getattr(self, scope)


def load(path: Path) -> list[Claim]:
    return read(path)[1]


def read(path: Path) -> tuple[About | None, list[Claim]]:
    """Return (the entry that describes the paper, if any; the claims with the headings above them).
    Raises UserError naming file, claim, key and value."""
    try:
        entries = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    kind = type(entries).__name__
    require(isinstance(entries, list), str(path), kind, "must be a list of claims")
    about, section, claims = None, "", {}
    for number, entry in enumerate(entries, 1):
        keys = entry if isinstance(entry, dict) else {}
        with _naming(f"{path}: claim {keys.get('id', number)}"):
            if number == 1 and "paper" in keys:
                about = checked(About, entry)
            elif "section" in keys:
                require(len(keys) == 1, "section", list(keys), "must be the only key of its entry")
                section = str(entry["section"])
            else:
                claim = claim_of(entry, section)
                require(claim.id not in claims, "id", claim.id, "must be unique")
                claims[claim.id] = claim
    for claim in claims.values():
        fine = claim.premise in ("", *claims)
        require(fine, f"{path}: claim {claim.id}: premise", claim.premise, "must be a claim's id")
    return about, list(claims.values())


def claim_of(entry: dict, section: str = "") -> Claim:
    """Return an entry of the file as a claim. Raises UserError naming key and value."""
    require(isinstance(entry, dict), "claim", entry, "must be a map of id, claim, source, ...")
    forms = {}
    for scope in (scope for scope in SCOPES if scope in entry):
        with _naming(scope):
            forms[scope] = form_of(entry[scope], cluster=scope == CLUSTER)
    forms.setdefault(CLUSTER, forms.get(PUBLISHED))
    return checked(Claim, {**entry, **forms, "section": section})


@contextmanager
def _naming(place: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error
