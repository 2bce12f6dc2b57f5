"""Claims are data: `papers/<p>/claims.yaml`, a list of sentences with one predicate a scope.

    - id: focal-pass256
      claim: Focal weighting raises GRPO's pass@256
      source: Table 1
      published: {order: [{method: F-GRPO}, {method: GRPO}], relation: ">", where: {k: 256, ...}}
      laptop: ...                        # a scope that is left out is not part of that scale
      cluster: ...

A selector (SEL) is a map of column to value (table, model, method, benchmark, metric, k, unit,
seed, step, run_id); a list of values means the plain average over them, null the empty cell.
Without `step` the last step of each seed counts. `where` is merged into every selector of its
predicate. The predicates:

    order: [SEL, SEL, ...]  with  relation: ">" | "<"  and  margin: points (0 if left out)
    difference: {a: SEL, b: SEL, relation: "~" | ">" | "<", value: x, within: y}
                                                                    a - b against x
    range: {of: SEL, low: x, high: y}                               one bound may be left out
    count: {pairs: [[SEL, SEL], ...], relation: ">" | "<", at_least: n}
    mean_gain: {pairs: [[SEL, SEL], ...], relation: "~" | ">" | "<", value: x, within: y}
                                                                    mean of first - second against x

"~" reads |difference - x| <= within. Verdicts: holds, fails, inconclusive, not run. Rows without a
seed (printed numbers, closed forms) are compared as numbers; a tie is inconclusive. Rows with seeds
are compared by the 95 % interval of `two_way_interval`: over seeds and problems where the counts of
every selected row are given (metrics pass@k and avg@k), else over seeds alone, which takes the
problems as fixed. A comparison holds when the interval lies wholly on the claimed side, fails when
it lies wholly on the other, and is inconclusive otherwise, or with fewer than three seeds.
Selectors with the same seeds are paired by seed. The links of an order and the pairs of a count
share Holm's correction (the intervals shown are not corrected); an order holds when all its links
hold and fails when one fails. Nothing corrects over claims.
"""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from common.claim_rows import SELECTABLE, Found, Missing, select, tidy
from common.errors import UserError
from common.metrics.paired import Interval, two_way_interval

SCOPES = ("published", "laptop", "cluster")
COLORS = {"holds": "green", "fails": "red", "inconclusive": "yellow", "not run": "dim"}
MIN_SEEDS = 3  # two_way_interval is too narrow with two
FORMS = {  # form: (keys it needs, keys it may have); an order's stand beside it, the others' inside
    "order": ({"order", "relation"}, {"margin"}),
    "difference": ({"a", "b", "relation", "value"}, {"within"}),
    "range": ({"of"}, {"low", "high"}),
    "count": ({"pairs", "relation", "at_least"}, set()),
    "mean_gain": ({"pairs", "relation", "value"}, {"within"}),
}


def load(path: Path) -> list[dict]:
    """The claims of a file. Raises UserError naming file and claim for an unknown key or form."""
    try:
        claims = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    if not isinstance(claims, list):
        raise UserError(f"{path}: must be a list of claims, each with id, claim, source")
    seen = set()
    for number, claim in enumerate(claims, 1):
        place = f"{path}: claim {claim.get('id', number) if isinstance(claim, dict) else number}"
        _check_keys(place, claim, {"id", "claim", "source"}, set(SCOPES))
        if claim["id"] in seen:
            raise UserError(f"{place}: id is there twice; give each claim its own")
        seen.add(claim["id"])
        for scope in SCOPES:
            if scope in claim:
                _parse(f"{place}: {scope}", claim[scope])
    return claims


def evaluate(
    claims: list[dict],
    rows: dict[str, pd.DataFrame],
    counts: dict[str, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Each claim's verdict in each scope.

    rows: scope -> tidy rows (common.results.COLUMNS; published tables lack the last ones); counts:
    scope -> table, model, method, benchmark, seed, step, problem_id, n, c. Returns claim, source, a
    verdict a scope, id, and the numbers behind each verdict. Raises UserError for an ambiguous
    selector.
    """
    frames = {scope: tidy(frame) for scope, frame in rows.items()}
    table = []
    for claim in claims:
        verdicts, numbers = {}, {}
        for scope in SCOPES:
            if scope not in claim:
                verdict = "not run", ""
            elif scope not in frames:
                verdict = "not run", "no rows"
            else:
                place = f"claim {claim['id']}: {scope}"
                verdict = _evaluate(place, claim[scope], frames[scope], (counts or {}).get(scope))
            verdicts[scope], numbers[f"{scope}_numbers"] = verdict
        head = {"claim": claim["claim"], "source": claim["source"]}
        table.append({**head, **verdicts, "id": claim["id"], **numbers})
    columns = ["claim", "source", *SCOPES, "id", *(f"{scope}_numbers" for scope in SCOPES)]
    return pd.DataFrame(table, columns=columns)


def to_markdown(verdicts: pd.DataFrame) -> str:
    """The table of `evaluate` as markdown, the numbers behind each verdict."""
    scopes = _in_use(verdicts)
    lines = [["claim", "source", *scopes], ["---"] * (2 + len(scopes))]
    for row in verdicts.to_dict("records"):
        cells = [": ".join(_words(row, scope)) for scope in scopes]
        lines.append(
            [str(cell).replace("|", "\\|") for cell in (row["claim"], row["source"], *cells)]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_terminal(verdicts: pd.DataFrame):
    """The table of `evaluate` as a rich table; verdicts in colour and in words."""
    from rich.table import Table
    from rich.text import Text

    scopes = _in_use(verdicts)
    table = Table(show_lines=True)
    for name in ("claim", "source", *scopes):
        table.add_column(name, overflow="fold", ratio={"claim": 3, "source": 2}.get(name, 3))
    for row in verdicts.to_dict("records"):
        cells = []
        for scope in scopes:
            verdict, *numbers = _words(row, scope)
            text = Text(verdict, COLORS.get(verdict, "dim"))
            cells.append(text.append("".join(f"\n{line}" for line in numbers), "dim"))
        table.add_row(Text(row["claim"]), Text(row["source"]), *cells)
    return table


def _in_use(verdicts: pd.DataFrame) -> list[str]:
    """The scopes that some claim has a predicate for."""
    return [scope for scope in SCOPES if (verdicts[f"{scope}_numbers"] != "").any()]


def _words(row: dict, scope: str) -> list[str]:
    """Verdict and numbers; a dash where the claim is not made at this scale."""
    numbers = row[f"{scope}_numbers"]
    return [row[scope], numbers] if numbers else ["–"]


def _parse(place: str, predicate: dict) -> tuple[str, dict, list[dict]]:
    """Form, its keys, and its selectors in the order written, pairs one after the other."""
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
    if close != ("within" in body) or (form == "range" and len(body) < 2):
        raise UserError(f"{place}: within goes with relation ~ only, and a range needs low or high")
    for key in ("margin", "value", "within", "low", "high", "at_least"):
        if not isinstance(body.get(key, 0), int | float):
            raise UserError(f"{place}: {key}={body[key]}: must be a number")
    try:
        pairs = [selector for a, b in body.get("pairs", ()) for selector in (a, b)]
    except (TypeError, ValueError):
        raise UserError(f"{place}: pairs must be a list of [selector, selector]") from None
    single = [body[key] for key in ("a", "b", "of") if key in body]
    selectors = body["order"] if form == "order" else single or pairs
    if not isinstance(selectors, list) or len(selectors) < (1 if form == "range" else 2):
        raise UserError(f"{place}: {form} needs at least two selectors")
    if form == "count" and not 1 <= body["at_least"] <= len(selectors) / 2:
        raise UserError(f"{place}: at_least={body['at_least']}: must be 1..{len(selectors) // 2}")
    for selector in (where, *selectors):
        _check_keys(place, selector, set(), set(SELECTABLE))
        for key, value in selector.items():
            if isinstance(value, dict) or value == []:
                raise UserError(f"{place}: {key}={value}: must be a value or a list of values")
    return form, body, [{**where, **selector} for selector in selectors]


def _evaluate(place: str, predicate: dict, rows, counts) -> tuple[str, str]:
    form, body, selectors = _parse(place, predicate)
    found, missing = [], []
    for selector in selectors:
        try:
            found.append(select(place, selector, rows, counts))
        except Missing as error:
            missing.append(str(error))
    if missing:
        return "not run", "missing: " + "; ".join(dict.fromkeys(missing))
    relation = body.get("relation")
    if form in ("order", "count"):
        links = list(pairwise(found) if form == "order" else _pairs(found))
        gaps = [_combine([(1, a), (-1, b)]) for a, b in links]
        margin = body.get("margin", 0) * (1 if relation == ">" else -1)
        verdicts = _sides(gaps, margin, relation)
        n = {verdict: verdicts.count(verdict) for verdict in COLORS}
        if form == "count":
            numbers = (
                f"{n['holds']} hold, {n['fails']} fail, {n['inconclusive']} open of {len(links)}"
            )
            enough = body["at_least"]
            if n["holds"] >= enough:
                return "holds", numbers
            return ("fails" if len(links) - n["fails"] < enough else "inconclusive"), numbers
        everywhere = "holds" if n["holds"] == len(links) else "inconclusive"
        return ("fails" if n["fails"] else everywhere), _order_text(found, gaps)
    if form == "mean_gain":
        pairs = list(_pairs(found))
        share = 1 / len(pairs)
        gap = _combine([term for a, b in pairs for term in ((share, a), (-share, b))])
        text = f"mean gain {_text(gap)} over {len(pairs)} pairs"
    elif form == "difference":
        gap = _combine([(1, found[0]), (-1, found[1])])
        text = _order_text(found, [gap])
    else:
        gap = _combine([(1, found[0])])
        text = _text(gap)
    if relation in (">", "<"):
        return _sides([gap], body["value"], relation)[0], text
    within = body.get("within", 0)
    low = body.get("low", body.get("value", -np.inf) - within)
    high = body.get("high", body.get("value", np.inf) + within)
    return _inside(gap, low, high), text


def _combine(terms: Sequence[tuple[float, Found]]) -> Interval:
    """The weighted sum of what was found; NaN standard error where there are too few seeds."""
    value = sum(weight * x.values.mean() for weight, x in terms)
    random = [(weight, x) for weight, x in terms if x.seeds is not None]
    if not random:
        return Interval(value, 0.0, 1.0)
    if min(len(x.seeds) for _, x in random) < MIN_SEEDS:
        return Interval(value, np.nan, np.nan)
    problems = random[0][1].problems
    shared = problems is not None and all(x.problems == problems for _, x in random)
    parts = {}
    for weight, x in random:
        part = weight * (x.by_problem if shared else x.values[:, None])
        parts[x.seeds] = parts.get(x.seeds, 0) + part
    strata = [benchmark for benchmark, _ in problems] if shared else None
    return replace(two_way_interval(*parts.values(), strata=strata), value=value)


def _sides(gaps: list[Interval], null: float, relation: str) -> list[str]:
    """holds, fails or inconclusive for each gap > null (or <), with Holm's correction."""
    ps = np.array([1.0 if np.isnan(gap.stderr) else gap.p(null) for gap in gaps])
    order = np.argsort(ps)
    steps = np.maximum.accumulate(ps[order] * np.arange(len(ps), 0, -1))
    adjusted = np.empty(len(ps))
    adjusted[order] = steps
    right = [(gap.value > null) == (relation == ">") for gap in gaps]
    return [
        "inconclusive" if p >= 0.05 else "holds" if side else "fails"
        for p, side in zip(adjusted, right, strict=True)
    ]


def _inside(gap: Interval, low: float, high: float) -> str:
    below, above = gap.bounds()
    if below >= low - 1e-9 and above <= high + 1e-9:
        return "holds"
    return "fails" if below > high + 1e-9 or above < low - 1e-9 else "inconclusive"


def _order_text(found: list[Found], gaps: list[Interval]) -> str:
    singles = [_combine([(1, x)]) for x in found]
    if all(x.seeds is None for x in found):
        signs = ["=" if abs(g.value) < 1e-9 else ">" if g.value > 0 else "<" for g in gaps]
        rest = [f" {sign} {x.value:.4g}" for sign, x in zip(signs, singles[1:], strict=True)]
        return f"{singles[0].value:.4g}" + "".join(rest)
    values = [f"{x.value:.4g}" + (f" ± {x.stderr:.2g}" if x.stderr > 0 else "") for x in singles]
    differences = ", ".join(f"diff {_text(gap)}" for gap in gaps)
    seeds = dict.fromkeys(str(len(x.seeds)) for x in found if x.seeds is not None)
    problems = {x.problems and len(x.problems) for x in found} - {None}
    size = f"{' and '.join(seeds)} seeds" + (f" x {max(problems)} problems" if problems else "")
    return f"{' vs '.join(values)}, {differences}, {size}"


def _text(gap: Interval) -> str:
    if gap.stderr == 0:
        return f"{gap.value:.4g}"
    if np.isnan(gap.stderr):
        return f"{gap.value:.4g} (fewer than {MIN_SEEDS} seeds)"
    low, high = gap.bounds()
    return f"{gap.value:.3g} [{low:.3g}, {high:.3g}]"


def _pairs(found: list[Found]):
    return zip(found[::2], found[1::2], strict=True)


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
