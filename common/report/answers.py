"""Sentences for the first screen of the page and the README: what a paper claims, what came out.

Every sentence is made from claims.csv and gaps.csv: counts of verdicts, and headline claims with
their effects and intervals. No result is hard-coded in a sentence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pandas as pd

from common.claims.file import SCOPES
from common.claims.single import ONE_RUN
from common.report.beside import OWN, SHOWN

PUBLISHED, LAPTOP, CLUSTER = SCOPES
WORDS = ("holds", "fails", "inconclusive", ONE_RUN, "mechanism not engaged", "not run")
UNCLAIMED = "not claimed here"
TOYS = {"toy": "Toy", "simulation": "Simulation"}  # families of claims.yaml, and tables
EXACT = "Theory and single measurements"
NAMES = {
    PUBLISHED: "Printed numbers",
    OWN: "Your own laptop rerun",
    CLUSTER: "GPU or cluster, the paper's size",
}
POINTS = ("pass@", "avg@", "accuracy", "solve_rate", "active_groups")


@dataclass(frozen=True)
class Effect:
    """The effect that a verdict rests on."""

    text: str  # with its interval
    value: float  # NaN where there are several comparisons
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """A headline claim's verdict at one scale."""

    scale: str
    scope: str
    word: str
    state: str
    effect: Effect


@dataclass(frozen=True)
class Headline:
    id: str
    text: str  # claims.yaml's `headline`: the claim in short, at whatever scale
    source: str
    findings: tuple[Finding, ...]  # of the scales at which it was claimed; maybe none


@dataclass(frozen=True)
class Scale:
    """All claims at one scale."""

    name: str
    scope: str
    counts: Counter  # by verdict, without what is not claimed there
    sentence: str


@dataclass(frozen=True)
class Answer:
    paper: str
    title: str
    arxiv: str
    brief: str  # its idea in a few words
    says: str
    scales: tuple[Scale, ...]
    headlines: tuple[Headline, ...]


def answer(
    paper: str,
    about: dict,
    claims: dict[str, dict],
    verdicts: pd.DataFrame,
    gaps: pd.DataFrame,
    models: dict[str, str],
    budget: pd.DataFrame,
) -> Answer:
    """Return one paper's part of the first screen.

    `about` is the first entry of claims.yaml, `claims` are by id, `models` maps a laptop table to
    its model, and `budget` says which claims the cluster rows could decide.
    """
    behind = {key: group for key, group in gaps.groupby(["claim", "scope"], sort=False)}
    rows = {row["id"]: row for row in verdicts.to_dict("records")}
    scales: dict[tuple[str, str], dict[str, Finding]] = {}
    for name, row in rows.items():
        for scope in (scope for scope in SHOWN if scope in row):
            word, numbers = row[scope], str(row[f"{scope}_numbers"])
            if scope == OWN and word == "not run":
                continue
            if word == UNCLAIMED or not word or (scope == PUBLISHED and not numbers):
                continue
            group = behind.get((name, scope))
            family = claims.get(name, {}).get("family", "")
            where = scale(scope, family, group, models)
            state = str(row[f"{scope}_state"])
            one = Finding(where, scope, word, state, effect(group, numbers))
            scales.setdefault((scope, where), {})[name] = one
    order = sorted(scales, key=lambda key: (SHOWN.index(key[0]), _rank(key[1], models)))
    headlines = tuple(
        Headline(
            name,
            claims[name]["headline"],
            row["source"],
            tuple(scales[key][name] for key in order if name in scales[key]),
        )
        for name, row in rows.items()
        if claims.get(name, {}).get("headline")
    )
    chosen = {one.id: one.text for one in headlines}
    return Answer(
        paper,
        about.get("paper", paper),
        str(about.get("arxiv", "")),
        about.get("brief", ""),
        about.get("says", ""),
        tuple(_scale(*key, scales[key], chosen, budget) for key in order),
        headlines,
    )


def models(summary: pd.DataFrame) -> dict[str, str]:
    """Return {laptop table: its model} from comparison.csv, in the order of the tables there."""
    rows = summary[summary["scope"] == LAPTOP].drop_duplicates("table")
    return dict(zip(rows["table"].astype(str), rows["model"].astype(str), strict=True))


def scale(scope: str, family: str, gaps: pd.DataFrame | None, models: dict[str, str]) -> str:
    """Return what a claim was decided on: a laptop's model, theory, a toy, or a cluster."""
    if scope != LAPTOP:
        return NAMES[scope]
    read = "" if gaps is None else " ".join(str(table) for table in gaps["table"])
    for toy, name in TOYS.items():
        if family == toy or read.startswith(toy):
            return name
    first = sorted((table for table in models if table in read), key=len)
    if gaps is None:  # not run, or refused: of the laptop's first model
        first = list(models)[:1]
    return f"Laptop, {models[first[-1]]}" if first else EXACT


def effect(gaps: pd.DataFrame | None, numbers: str) -> Effect:
    """Describe one comparison by its difference and interval, several by how many hold and fail."""
    none = (float("nan"),) * 3
    if gaps is None or gaps.empty:
        return Effect(numbers.split("; ")[0], *none)
    rows = gaps.to_dict("records")
    if len(rows) > 1:
        sides = Counter(row["verdict"] for row in rows)
        said = f"{sides['holds']} of {len(rows)} comparisons as claimed, {sides['fails']} against"
        return Effect(f"{said}, differences {_spread(rows)}", *none)
    row = rows[0]
    what = unit(str(row["benchmark"]), str(row["metric"]))
    if pd.isna(row["low"]):
        exact = row.get("test", "numbers") == "numbers" and pd.isna(row["n_seeds"])
        why = "" if exact else " (too few seeds for an interval)"
        return Effect(f"{_rounded(row['difference'])}{what}{why}", row["difference"], *none[:2])
    low, high = row["low"], row["high"]
    text = f"{_rounded(row['difference'])} [{_rounded(low)}, {_rounded(high)}]{what}"
    if row["verdict"] == "inconclusive":
        text += _corrected(row)
    return Effect(text, row["difference"], low, high)


def _corrected(row: dict) -> str:
    """Return the p-value after the correction over claims, which an interval does not show."""
    by = {"p_holm": "Holm", "p_bh": "Benjamini-Hochberg"}
    known = [(name, row[key]) for key, name in by.items() if not pd.isna(row.get(key))]
    return "".join(f"; p = {value:.2g} after {name}'s correction" for name, value in known[:1])


def unit(benchmark: str, metric: str) -> str:
    """Return the unit and measure of a difference, such as " points of rare pass@64"."""
    named = (benchmark, metric.replace("_", " "))
    what = " ".join(part for part in named if part not in ("", "nan"))
    points = metric.lower().startswith(POINTS)
    return f" points of {what}" if points else f" ({what})" if what else ""


def counted(counts: Counter) -> str:
    """Return the counts in words: "3 hold, 1 fails, 2 are inconclusive"."""
    verbs = {"holds": "hold", "fails": "fail", "inconclusive": "are inconclusive"}
    verbs |= {"mechanism not engaged": "have a mechanism that did not engage"}
    verbs |= {"not run": "were not run", ONE_RUN: "are inconclusive with one run"}
    one = {"holds": "holds", "fails": "fails", "inconclusive": "is inconclusive"}
    one |= {"mechanism not engaged": "has a mechanism that did not engage"}
    one |= {"not run": "was not run", ONE_RUN: "is inconclusive with one run"}
    known = [word for word in WORDS if counts[word]]
    return ", ".join(f"{counts[w]} {(one if counts[w] == 1 else verbs)[w]}" for w in known)


def _scale(
    scope: str,
    name: str,
    findings: dict[str, Finding],
    chosen: dict[str, str],
    budget: pd.DataFrame,
) -> Scale:
    """Summarise one scale: the counts, then the headline claims that are decided, with effects."""
    counts = Counter(one.word for one in findings.values())
    claims = f"{counts.total()} claim{'s' if counts.total() > 1 else ''}"
    if set(counts) == {"not run"}:
        return Scale(name, scope, counts, f"{name}: not run; {_could(claims, budget)}.")
    sentence = f"{name}: of {claims} {counted(counts)}"
    decided = [(key, one) for key, one in findings.items() if key in chosen]
    decided = [(key, one) for key, one in decided if one.word in ("holds", "fails")]
    decided.sort(key=lambda pair: list(chosen).index(pair[0]))
    said = [f"“{chosen[key]}” {one.word} ({one.effect.text})" for key, one in decided[:2]]
    if scope == PUBLISHED:
        said = []  # what the paper says of itself needs no effect here
    return Scale(name, scope, counts, sentence + ("; " + ", ".join(said) if said else "") + ".")


def _could(claims: str, budget: pd.DataFrame) -> str:
    """Say how many of the claims a cluster rerun could test, and with what power."""
    rows = budget[budget["gpu_hours"].notna()]
    power = rows["power"].astype(str).str.extract(r"power (\d+) %", expand=False).astype(float)
    many = int((power >= 80).sum()) or "none"
    return (
        f"a rerun could test {len(rows)} of {claims}, and {many} with a power of 80 % or more for "
        "the printed difference"
    )


def _rank(name: str, models: dict[str, str]) -> tuple:
    """Sort key: theory first, then toys, then the laptop's models in their order."""
    first = (EXACT, *TOYS.values())
    laptops = [f"Laptop, {model}" for model in dict.fromkeys(models.values())]
    known = [*first, *laptops]
    return (known.index(name) if name in known else len(known), name)


def _spread(rows: list[dict]) -> str:
    known = [row["difference"] for row in rows if not pd.isna(row["difference"])]
    return f"{_rounded(min(known))} to {_rounded(max(known))}" if known else "not known"


def _rounded(value: float) -> str:
    """Format with one decimal from 1 on and two significant digits below: 10.0, -1.7, 0.043."""
    return f"{value:.1f}" if abs(value) >= 0.995 or value == 0 else f"{value:.2g}"
