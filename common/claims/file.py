"""Read and check `papers/<p>/claims.yaml`. common/claims/judge.py says what predicates mean."""

import difflib
from itertools import product
from pathlib import Path

import yaml

from common.claims.select import SELECTABLE
from common.errors import UserError

SCOPES = ("published", "laptop", "cluster")
LAPTOP, CLUSTER = SCOPES[1:]
# form: (required keys, optional keys). In YAML an order's other keys stand beside `order`; all keys
# of another form stand inside it.
FORMS = {
    "order": ({"order", "relation"}, {"margin"}),
    "difference": ({"a", "b", "relation", "value"}, {"within"}),
    "range": ({"of"}, {"low", "high"}),
    "count": ({"pairs", "relation", "at_least"}, {"margin", "each"}),
    "mean_gain": ({"pairs", "relation", "value"}, {"within", "each"}),
    "trend": ({"of", "at", "relation"}, set()),
}
# Keys of the first entry: the paper's name, its arXiv number, its idea in a few words, and its
# claim in a sentence.
ABOUT = ("paper", "arxiv", "brief", "says")
AGAINST_BASE = "against_base"  # optional key: the rows of gains.against_base
PRIMARY, REST = "primary", "rest"  # claim families: Holm corrects the first


def load(path: Path) -> list[dict]:
    """Return the claims of a file. Raises UserError naming file and claim for an unknown key or
    form."""
    return read(path)[1]


def read(path: Path) -> tuple[dict, list[dict]]:
    """Return (the first entry, the claims). The first entry describes the paper: paper, arxiv,
    brief (its idea in a few words) and says (its claim in a sentence); it is {} where the file does
    not begin with one. Each claim has the section heading above it as `section`. Raises UserError
    as `load`."""
    try:
        entries = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    if not isinstance(entries, list):
        raise UserError(f"{path}: must be a list of claims, each with id, claim, source")
    about, section, claims = {}, "", []
    for number, entry in enumerate(entries, 1):
        if number == 1 and isinstance(entry, dict) and "paper" in entry:
            _check_keys(f"{path}: paper", entry, set(ABOUT), {AGAINST_BASE})
            if AGAINST_BASE in entry:
                place = f"{path}: {AGAINST_BASE}"
                _check_keys(place, entry[AGAINST_BASE], {"table", "methods"}, set())
            about = entry
        elif isinstance(entry, dict) and "section" in entry:
            _check_keys(f"{path}: section {entry['section']}", entry, {"section"}, set())
            section = str(entry["section"])
        else:
            _check(path, number, entry, {claim["id"] for claim in claims})
            claims.append(entry | {"section": section})
    return about, claims


def _check(path: Path, number: int, claim, seen: set[str]) -> None:
    place = f"{path}: claim {claim.get('id', number) if isinstance(claim, dict) else number}"
    _check_keys(place, claim, {"id", "claim", "source"}, {*SCOPES, "family", "headline"})
    if not isinstance(claim.get("family", REST), str):
        raise UserError(f"{place}: family={claim['family']}: must be one word, as {PRIMARY}")
    if not isinstance(claim.get("headline", ""), str):
        raise UserError(f"{place}: headline={claim['headline']}: must be a short sentence")
    if claim["id"] in seen:
        raise UserError(f"{place}: id is there twice; give each claim its own")
    for scope in SCOPES:
        if claim.get(scope) is not None:
            parse(f"{place}: {scope}", claim[scope])
        elif scope in claim and scope != CLUSTER:
            raise UserError(f"{place}: {scope} is empty; leave it out")


def predicate(claim: dict, scope: str) -> dict | None:
    """Return the predicate that a claim is judged by in a scope; None where the claim is not made
    there. Cluster rows repeat the printed ones, so they are judged by the published predicate,
    unless the claim has a `cluster` predicate, or `cluster: null`, which says that no run can
    decide it."""
    return claim.get(scope, claim.get("published") if scope == CLUSTER else None)


def parse(place: str, predicate: dict) -> tuple[str, dict, list[dict]]:
    """Return (form, its keys, its selectors) of a predicate. Selectors are in the order written,
    pairs flattened. Raises UserError, which starts with `place`, for a malformed predicate."""
    _check_keys(place, predicate, set(), {*FORMS, "where", "relation", "margin"})
    forms = [form for form in FORMS if form in predicate]
    if len(forms) != 1:
        raise UserError(f"{place}: has {forms or 'no predicate'}; give one of {', '.join(FORMS)}")
    form, where = forms[0], predicate.get("where", {})
    body = {key: value for key, value in predicate.items() if key != "where"}
    if form != "order":
        _check_keys(place, body, {form}, set())
        body = body[form]
    _check_keys(f"{place}: {form}", body, *FORMS[form])
    relation = body.get("relation", ">")
    close = relation == "~" and form in ("difference", "mean_gain")
    if not close and relation not in (">", "<"):
        raise UserError(f"{place}: relation={relation}: must be > or < (or ~ against a value)")
    free = close and place.endswith(CLUSTER)  # there the noise sets the tolerance
    if (close != ("within" in body) and not free) or (form == "range" and len(body) < 2):
        raise UserError(f"{place}: within goes with relation ~ only, and a range needs low or high")
    for key in ("margin", "value", "within", "low", "high", "at_least"):
        if not isinstance(body.get(key, 0), int | float):
            raise UserError(f"{place}: {key}={body[key]}: must be a number")
    try:
        pairs = [selector for a, b in body.get("pairs", ()) for selector in (a, b)]
    except (TypeError, ValueError):
        raise UserError(f"{place}: pairs must be a list of [selector, selector]") from None
    pairs = [{**one, **selector} for one in _each(place, body) for selector in pairs]
    single = [body[key] for key in ("a", "b", "of") if key in body]
    lists = {"order": body.get("order"), "trend": body.get("of")}
    selectors = lists.get(form, single or pairs)
    if not isinstance(selectors, list) or len(selectors) < (1 if form == "range" else 2):
        raise UserError(f"{place}: {form} needs at least two selectors")
    if form == "count" and not 1 <= body["at_least"] <= len(selectors) / 2:
        raise UserError(f"{place}: at_least={body['at_least']}: must be 1..{len(selectors) // 2}")
    if form == "trend":
        _check_trend(place, selectors, body["at"])
    for selector in (where, *selectors):
        _check_keys(place, selector, set(), set(SELECTABLE))
        for key, value in selector.items():
            if isinstance(value, dict) or value == []:
                raise UserError(f"{place}: {key}={value}: must be a value or a list of values")
    return form, body, [{**where, **selector} for selector in selectors]


def _each(place: str, body: dict) -> list[dict]:
    """Return all combinations of the values in `each`. Every pair is taken once with each."""
    each = body.get("each", {})
    if not isinstance(each, dict) or not all(isinstance(v, list) and v for v in each.values()):
        raise UserError(f"{place}: each={each}: must be a map of columns to lists of values")
    return [dict(zip(each, values, strict=True)) for values in product(*each.values())]


def _check_trend(place: str, selectors: list, at) -> None:
    numbers = isinstance(at, list) and all(isinstance(x, int | float) for x in at)
    if not numbers or len(at) != len(selectors) or len(set(at)) < 3:
        raise UserError(f"{place}: at={at}: must be a number for each selector, three of them new")


def _check_keys(place: str, value, needed: set, allowed: set) -> None:
    if not isinstance(value, dict):
        raise UserError(
            f"{place}: {value!r} must be a map of {', '.join(sorted(needed | allowed))}"
        )
    for key in value:
        if key not in needed | allowed:
            near = difflib.get_close_matches(str(key), sorted(needed | allowed), n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {sorted(needed | allowed)}"
            raise UserError(f"{place}: unknown key {key}={value[key]}; {hint}")
    for key in sorted(needed - set(value)):
        raise UserError(f"{place}: {key} is missing")
