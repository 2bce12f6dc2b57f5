"""A paper's claims and their verdicts, from claims.csv and gaps.csv."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from common.claims.file import PRIMARY, SCOPES, About, Claim, read
from common.claims.single import ONE_RUN

UNCLAIMED = "not claimed here"
SILENT = (UNCLAIMED, "not run")
BH = "Benjamini-Hochberg"
POINTS = ("pass@", "avg@", "accuracy", "solve_rate", "active_groups")  # metrics in percent


@dataclass(frozen=True)
class ClaimVerdict:
    word: str
    numbers: str  # as claims.csv has them
    effect: str  # the same in short, with the unit
    state: str  # of the files that it rests on


@dataclass(frozen=True, kw_only=True)
class JudgedClaim(Claim):
    kind: str  # what a laptop decides it on; "" where it is not claimed there
    findings: dict[str, ClaimVerdict]  # by scope
    yours: dict[str, ClaimVerdict]  # the same of your own runs, where these decide something


@dataclass(frozen=True)
class Paper:
    name: str
    about: About
    claims: list[JudgedClaim]

    @property
    def headlines(self) -> list[JudgedClaim]:
        return [claim for claim in self.theirs if claim.headline]

    @property
    def theirs(self) -> list[JudgedClaim]:
        return [claim for claim in self.claims if not claim.ours]


def papers(home: Path, reference: Path) -> list[str]:
    names = sorted(path.parent.name for path in home.glob("*/claims.yaml"))
    return [name for name in names if (reference / name / "claims.csv").exists()]


def paper(name: str, home: Path, folder: Path) -> Paper:
    about, claims = read(home / name / "claims.yaml")
    verdicts = pd.read_csv(folder / "claims.csv", keep_default_na=False, dtype=str)
    rows = {row["id"]: row for row in verdicts.to_dict("records")}
    gaps = pd.read_csv(folder / "gaps.csv")
    behind = dict([*gaps.groupby(["claim", "scope"])])
    found = []
    for claim in claims:
        if claim.id not in rows:
            continue  # it was written after the verdicts
        row, findings = rows[claim.id], {}
        for scope in SCOPES:
            said = row[f"{scope}_numbers"], effect(behind.get((claim.id, scope)), row, scope)
            findings[scope] = ClaimVerdict(row[scope] or UNCLAIMED, *said, row[f"{scope}_state"])
        found.append(JudgedClaim(**vars(claim), kind=row["kind"], findings=findings, yours={}))
    about = about or About(paper=name, arxiv="", brief="", says="")
    return Paper(name, about, found)


def beside(stored: Paper, yours: Paper) -> Paper:
    """Return the stored verdicts of a paper with your runs' verdicts. Nobody runs printed
    numbers."""
    mine, claims = {claim.id: claim for claim in yours.claims}, []
    for claim in stored.claims:
        one = mine.pop(claim.id, None)
        runs = {scope: one.findings[scope] for scope in SCOPES[1:]} if one else {}
        runs = {scope: found for scope, found in runs.items() if found.word not in SILENT}
        claims.append(replace(claim, yours=runs))
    return replace(stored, claims=[*claims, *mine.values()])


def effect(gaps: pd.DataFrame | None, row: dict, scope: str) -> str:
    """Describe one comparison by its difference and interval, several by how many hold and fail.
    None of these is corrected, so an inconclusive claim also has its corrected p."""
    if gaps is None:
        return row[f"{scope}_numbers"].split("; ")[0]
    rows = gaps.to_dict("records")
    key, name = ("p_holm", "Holm") if rows[0]["family"] == PRIMARY else ("p_bh", BH)
    p, more = rows[0][key], ""  # of the claim: all its comparisons have the same
    if row[scope] in ("inconclusive", ONE_RUN) and not pd.isna(p):
        more = f"; p = {p:.2g} after {name}'s correction"
    alone = [row for row in rows if pd.isna(row["of"])]
    if len(alone) > 1:
        sides = Counter(row["verdict"] for row in alone)
        counts = (
            f"{sides['holds']} of {len(alone)} comparisons as claimed, {sides['fails']} against"
        )
        if len(rows) > len(alone):  # judged by their mean
            return f"{_difference(rows[0], ' on average')}; alone, {counts}{more}"
        known = [row["difference"] for row in alone if not pd.isna(row["difference"])]
        spread = f"{_rounded(min(known))} to {_rounded(max(known))}" if known else "not known"
        return f"{counts}, differences {spread}{more}"
    return _difference(rows[0]) + more


def _difference(one: dict, what: str = "") -> str:
    text = _rounded(one["difference"])
    if not pd.isna(one["low"]):
        text += f" [{_rounded(one['low'])}, {_rounded(one['high'])}]"
    seeds = "" if pd.isna(one["n_seeds"]) else f", {one['n_seeds']:.0f} seeds"
    return text + _unit(str(one["benchmark"]), str(one["metric"])) + what + seeds


def _unit(benchmark: str, metric: str) -> str:
    """Return the unit and measure of a difference, such as " points of rare pass@64"."""
    what = " ".join(x for x in (benchmark, metric.replace("_", " ")) if x not in ("", "nan"))
    points = metric.lower().startswith(POINTS)
    return f" points of {what}" if points else f" ({what})" if what else ""


def _rounded(value: float) -> str:
    """Format with one decimal from 1 on and two significant digits below: 10.0, -1.7, 0.043."""
    return f"{value:.1f}" if abs(value) >= 0.995 or value == 0 else f"{value:.2g}"
