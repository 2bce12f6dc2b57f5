"""The confirmatory study (papers/study/PROTOCOL.md) as hypotheses and claims read it: the seeds of
which the repository keeps every run of a part (common/results/kept.py)."""

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from common.claims import judge
from common.claims.file import LAPTOP, Claim, load
from common.claims.select import indexed
from common.comparison.frontier import DEV, at_equal_accuracy, pass_at_k_rows
from common.comparison.gather import NAMED
from common.config.files import ROOT, STUDY
from common.config.rows import rows, stated
from common.results import provenance
from common.results.kept import AT, LINE, files, lines_of, unpacked

SEEDS = 9  # verdicts are given on nine whole seeds, not before
HYPOTHESES = ROOT / "papers" / STUDY / "hypotheses.yaml"
PARTS = "ADB"  # those that hypotheses read
DECIDED = {  # claim of a paper -> the hypothesis on its sentence, which decides it
    **dict.fromkeys(("focal_grpo", "focal_grpo_matched"), "f_grpo_keeps"),
    **dict.fromkeys(("div_grpo", "matched_grpo"), "fade_keeps"),
    **dict.fromkeys(("iac_diversity", "iac_matched"), "iac_keeps"),
    "focal_grpo_matched_lower": "f_grpo_keeps_lower",
    "matched_grpo_lower": "fade_keeps_lower",
    "iac_matched_lower": "iac_keeps_lower",
    "matched_n": "grpo_n_keeps_less",
}
OPPOSITE = {"matched_n": {"holds": "fails", "fails": "holds"}}  # of what the hypothesis says


@dataclass(frozen=True)
class Confirmed:
    """What the whole seeds say of claims; without enough of them the tables are empty."""

    verdicts: pd.DataFrame  # as `judge` returns them, of the claims that these runs decide
    gaps: pd.DataFrame  # the comparisons behind them
    runs: pd.DataFrame  # provenance.COLUMNS
    said: str  # how many seeds of each part are whole
    left_out: list[str]  # messages


def confirmed(root: Path, parts: str, claims: list[Claim], *, declared: bool = False) -> Confirmed:
    """Judge claims on the runs of `parts` that are kept below `root`. A part with fewer than SEEDS
    whole seeds is not read. `declared`: all claims count in the correction."""
    selectors = [one for claim in claims if claim.laptop for one in claim.laptop.selectors]
    tables = sorted({str(one.get("table", "")) for one in selectors})
    whole, said = read(root, parts)
    found, counts, runs, areas = [], [], [], {}
    for home, lines in whole.items():
        of_runs, drawn = (x[~x["benchmark"].str.startswith(DEV)] for x in unpacked(home, lines))
        equal, behind = at_equal_accuracy(drawn, tables)
        found += [pass_at_k_rows(of_runs, drawn), equal]
        counts.append(drawn)
        runs.append(lines.drop_duplicates("run_id")[[*NAMED, "commit"]])
        areas |= behind
    if not found:
        none = pd.DataFrame()
        runs = pd.DataFrame(columns=provenance.COLUMNS)
        return Confirmed(none, none, runs, "; ".join(said), [])
    index = replace(indexed(pd.concat(counts, ignore_index=True)), areas=areas)
    of_laptop = {LAPTOP: pd.concat(found, ignore_index=True)}
    verdicts, gaps, left_out = judge.judge(claims, of_laptop, {LAPTOP: index}, declared=declared)
    about = {"scope": LAPTOP, "state": "reference", "detail": "results/reference keeps its counts"}
    kept = pd.concat(runs, ignore_index=True).assign(**about)
    kept = kept.reindex(columns=provenance.COLUMNS)
    return Confirmed(verdicts, gaps, kept, "; ".join(said), left_out)


def hypotheses(root: Path) -> Confirmed:
    return confirmed(root, PARTS, load(HYPOTHESES), declared=True)


def read(root: Path, parts: str) -> tuple[dict[Path, pd.DataFrame], list[str]]:
    """Return (the kept lines of the parts that have SEEDS whole seeds, by testbed; how many seeds
    of each part are whole). A later part of a testbed counts with the seeds of its first part, from
    the same base models."""
    declared = stated(STUDY)["scales"]["confirmatory"]["sweeps"]
    whole, said = dict[Path, list[pd.DataFrame]](), []
    bases = dict[Path, dict[int, str]]()  # testbed -> the base model of each seed
    for part in parts:
        sweeps = [one for one in declared if one["part"] == part]
        (name,) = {x for one in sweeps for x in one["overrides"] if x.startswith("paper=")}
        home = root / name.removeprefix("paper=")
        planned = {(one["table"], rows(STUDY)[x]["label"]) for one in sweeps for x in one["rows"]}
        there = whole_seeds(home, planned)
        own = {seed: base for (seed, base), _ in reversed(there)}
        base_of = bases.setdefault(home, own)  # of its first part
        found = [lines for (seed, base), lines in there if base_of.get(seed) == base]
        said.append(f"part {part}: {len(found)} of {SEEDS} seeds are whole")
        if len(found) >= SEEDS:
            whole.setdefault(home, []).extend(found)
    return {home: pd.concat(of, ignore_index=True) for home, of in whole.items()}, said


def whole_seeds(home: Path, planned: set[tuple[str, str]]) -> list[tuple[tuple, pd.DataFrame]]:
    """Return ((seed, base model), their kept lines) where all `planned` rows (table, method) are
    kept, what was kept first before the rest."""
    kept = [pd.DataFrame(columns=LINE), *map(lines_of, files(home))]
    kept = pd.concat(kept, ignore_index=True)
    kept = kept.drop_duplicates(["run_id", "base", *AT])  # from two machines
    asked = [row in planned for row in zip(kept["table"], kept["method"], strict=True)]
    kept = kept[pd.Series(asked, kept.index, dtype=bool)]
    return [
        (name, lines)
        for name, lines in kept.groupby(["seed", "base"], sort=False)
        if planned == set(zip(lines["table"], lines["method"], strict=True))
    ]


def of_paper(root: Path, claims: list[Claim]) -> list[Confirmed]:
    """Return what the whole seeds say of a paper's claims, and what the hypotheses say of those
    that they decide. Claims on a step are of runs as long as the exploratory ones, which decide
    them."""
    at_the_end = [
        claim
        for claim in claims
        if claim.laptop and not any("step" in one for one in claim.laptop.selectors)
    ]
    found = confirmed(root, "AB", at_the_end)
    names = [claim.id for claim in claims if claim.id in DECIDED]
    if not names or found.verdicts.empty:
        return [found]
    judged = hypotheses(root)
    verdicts, gaps = [], []
    for name in names:
        word = OPPOSITE.get(name, {})
        one = judged.verdicts[judged.verdicts["id"] == DECIDED[name]].assign(id=name)
        behind = judged.gaps[judged.gaps["claim"] == DECIDED[name]].assign(claim=name)
        verdicts.append(one.replace({LAPTOP: word}))
        gaps.append(behind.replace({"verdict": word}))
    return [found, replace(judged, verdicts=pd.concat(verdicts), gaps=pd.concat(gaps))]


def instead(verdicts: pd.DataFrame, gaps: pd.DataFrame, new: Confirmed) -> tuple:
    """Return the verdicts and comparisons with those of the confirmatory study for each claim that
    it decides on a laptop."""
    if new.verdicts.empty:
        return verdicts, gaps
    told = new.verdicts[~new.verdicts[LAPTOP].isin(judge.WITHOUT)].set_index("id")
    told = told[[LAPTOP, f"{LAPTOP}_numbers", f"{LAPTOP}_runs"]]
    by_id = verdicts.set_index("id")
    by_id.loc[told.index, told.columns] = told
    old, own = (x[(x["scope"] == LAPTOP) & x["claim"].isin(told.index)] for x in (gaps, new.gaps))
    gaps = gaps.drop(index=old.index)
    if len(own):  # an empty table would change the columns' types
        gaps = pd.concat([gaps, own], ignore_index=True)
    return by_id.reset_index()[verdicts.columns], gaps
