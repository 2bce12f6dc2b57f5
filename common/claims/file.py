"""Read and check `papers/<p>/claims.yaml`. common/claims/judge.py says what predicates mean."""

from itertools import product
from pathlib import Path

import yaml

from common.claims.select import SELECTABLE
from common.errors import UserError, require, unknown

SCOPES = ("published", "laptop", "cluster")
PUBLISHED, LAPTOP, CLUSTER = SCOPES
# form: (required keys, optional keys). In YAML an order's other keys stand next to `order`; all
# of another form stand inside it.
FORMS = {
    "order": ({"order", "relation"}, {"margin"}),
    "difference": ({"a", "b", "relation", "value"}, {"within"}),
    "range": ({"of"}, {"low", "high"}),
    "count": ({"pairs", "relation", "at_least"}, {"margin", "each"}),
    "mean_gain": ({"pairs", "relation", "value"}, {"within", "each"}),
    "trend": ({"of", "at", "relation"}, set()),
}
COUNT_OF = ({"of", "value", "relation", "at_least"}, {"each"})  # a count of values, not of pairs
# Keys of the first entry: the paper's name, its arXiv number, its idea in a few words, and its
# claim in a sentence.
ABOUT = ("paper", "arxiv", "brief", "says")
OURS = "ours"  # optional key of a claim: true where it is our reading, not the paper's sentence
PRIMARY, REST = "primary", "rest"  # claim families: Holm corrects the first


def load(path: Path) -> list[dict]:
    """Return the claims of a file, checked as in `read`."""
    return read(path)[1]


def read(path: Path) -> tuple[dict, list[dict]]:
    """Return (the first entry, the claims). The first entry describes the paper: paper, arxiv,
    brief (its idea in a few words) and says (its claim in a sentence); it is {} where the file does
    not begin with one. Each claim has the section heading above it as `section`. Raises UserError
    naming file and claim for an unknown key or form."""
    try:
        entries = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    kind = type(entries).__name__
    require(isinstance(entries, list), str(path), kind, "must be a list of claims")
    about, section, claims = {}, "", []
    for number, entry in enumerate(entries, 1):
        if number == 1 and isinstance(entry, dict) and "paper" in entry:
            _check_keys(f"{path}: paper", entry, set(ABOUT), set())
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
    _check_keys(place, claim, {"id", "claim", "source"}, {*SCOPES, "family", "headline", OURS})
    require(
        claim.get(OURS, True) is True, f"{place}: {OURS}", claim.get(OURS), "is true or left out"
    )
    require(claim["id"] not in seen, f"{place}: id", claim["id"], "is there twice")
    for scope in SCOPES:
        if claim.get(scope) is not None:
            parse(f"{place}: {scope}", claim[scope])
        elif scope in claim and scope != CLUSTER:
            require(False, f"{place}: {scope}", None, "leave it out")


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
    require(len(forms) == 1, f"{place}: form", forms, f"give one of {', '.join(FORMS)}")
    form, where = forms[0], predicate.get("where", {})
    body = {key: value for key, value in predicate.items() if key != "where"}
    if form != "order":
        _check_keys(place, body, {form}, set())
        body = body[form]
    of = form == "count" and isinstance(body, dict) and "of" in body
    _check_keys(f"{place}: {form}", body, *(COUNT_OF if of else FORMS[form]))
    relation = body.get("relation", ">")
    close = relation == "~" and form in ("difference", "mean_gain")
    known = "must be > or < (or ~ against a value)"
    require(close or relation in (">", "<"), f"{place}: relation", relation, known)
    free = close and place.endswith(CLUSTER)  # there the noise sets the tolerance
    bounds = close == ("within" in body) or free
    require(bounds, f"{place}: within", body.get("within"), "goes with relation ~ only")
    require(form != "range" or len(body) > 1, f"{place}: range", body, "needs low or high")
    for key in ("margin", "value", "within", "low", "high", "at_least"):
        number = isinstance(body.get(key, 0), int | float)
        require(number, f"{place}: {key}", body.get(key), "must be a number")
    try:
        pairs = [selector for a, b in body.get("pairs", ()) for selector in (a, b)]
    except (TypeError, ValueError):
        raise UserError(f"{place}: pairs must be a list of [selector, selector]") from None
    each = body.get("each", {})
    grids = each if isinstance(each, list) and each else [each]
    given = [x for one in grids for x in (one.values() if isinstance(one, dict) else [None])]
    fine = all(isinstance(x, list) and x for x in given)
    require(fine, f"{place}: each", each, "must be a map of columns to lists of values, or several")
    times = [dict(zip(x, at, strict=True)) for x in grids for at in product(*x.values())]
    pairs = [{**one, **selector} for one in times for selector in (body["of"] if of else pairs)]
    single = [body[key] for key in ("a", "b", "of") if key in body and not of]
    lists = {"order": body.get("order"), "trend": body.get("of")}
    selectors = lists.get(form, single or pairs)
    enough = isinstance(selectors, list) and len(selectors) >= (1 if form == "range" else 2)
    require(enough, f"{place}: {form}", selectors, "needs at least two selectors")
    if form == "count":
        n, most = body["at_least"], len(selectors) // (1 if of else 2)
        require(1 <= n <= most, f"{place}: at_least", n, f"must be 1..{most}")
    if form == "trend":
        at = body["at"]
        fine = isinstance(at, list) and all(isinstance(x, int | float) for x in at)
        fine = fine and len(at) == len(selectors) and len(set(at)) >= 3
        require(fine, f"{place}: at", at, "needs a number per selector, 3 different")
    for selector in (where, *selectors):
        _check_keys(place, selector, set(), set(SELECTABLE))
        for key, value in selector.items():
            one = not isinstance(value, dict) and value != []
            require(one, f"{place}: {key}", value, "must be a value or a list of values")
    return form, body, [{**where, **selector} for selector in selectors]


def _check_keys(place: str, value, needed: set, allowed: set) -> None:
    known = sorted(needed | allowed)
    require(isinstance(value, dict), place, value, f"must be a map of {', '.join(known)}")
    for key in value:
        if key not in known:
            raise UserError(f"{place}: {unknown(str(key), value[key], known)}")
    for key in sorted(needed - set(value)):
        raise UserError(f"{place}: {key} is missing")
