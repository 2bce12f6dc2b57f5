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
from common.results.kept import LINE, files, lines_of, unpacked

SEEDS = 9  # verdicts are given on nine whole seeds, not before
HYPOTHESES = ROOT / "papers" / STUDY / "hypotheses.yaml"
PARTS = "ADB"  # those that hypotheses read
DECIDED = {  # claim of a paper -> the hypothesis that decides it (PROTOCOL.md, reading 5)
    **dict.fromkeys(("focal_grpo", "focal_grpo_matched"), "f_grpo_keeps"),
    **dict.fromkeys(("div_grpo", "matched_grpo"), "fade_keeps"),
    **dict.fromkeys(("iac_diversity", "iac_matched"), "iac_keeps"),
    "focal_grpo_matched_lower": "f_grpo_keeps_lower",
    "matched_grpo_lower": "fade_keeps_lower",
    "iac_matched_lower": "iac_keeps_lower",
}


@dataclass(frozen=True)
class Confirmed:
    """What the whole seeds say of claims; without enough of them the tables are empty."""

    verdicts: pd.DataFrame  # as `judge` returns them, of the claims that these runs decide
    gaps: pd.DataFrame  # the comparisons behind them
    runs: pd.DataFrame  # provenance.COLUMNS
    said: str  # how many seeds of each part are whole
    left_out: list[str]  # messages


def confirmed(root: Path, parts: str, claims: list[Claim]) -> Confirmed:
    """Judge claims on the runs of `parts` that are kept below `root`. A part with fewer than SEEDS
    whole seeds is not read."""
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
    verdicts, gaps, left_out = judge.judge(claims, of_laptop, {LAPTOP: index})
    about = {"scope": LAPTOP, "state": "reference", "detail": "results/reference keeps its counts"}
    kept = pd.concat(runs, ignore_index=True).assign(**about)
    kept = kept.reindex(columns=provenance.COLUMNS)
    return Confirmed(verdicts, gaps, kept, "; ".join(said), left_out)


def read(root: Path, parts: str) -> tuple[dict[Path, pd.DataFrame], list[str]]:
    """Return (the kept lines of the parts that have SEEDS whole seeds, by testbed; how many seeds
    of each part are whole)."""
    declared = stated(STUDY)["scales"]["confirmatory"]["sweeps"]
    whole, said = dict[Path, list[pd.DataFrame]](), []
    for part in parts:
        sweeps = [one for one in declared if one["part"] == part]
        (testbed,) = {x for one in sweeps for x in one["overrides"] if x.startswith("paper=")}
        home = root / testbed.removeprefix("paper=")
        planned = {(one["table"], rows(STUDY)[x]["label"]) for one in sweeps for x in one["rows"]}
        lines = whole_seeds(home, planned)
        seeds = lines["seed"].nunique()
        said.append(f"part {part}: {seeds} of {SEEDS} seeds are whole")
        if seeds >= SEEDS:
            whole.setdefault(home, []).append(lines)
    return {home: pd.concat(of, ignore_index=True) for home, of in whole.items()}, said


def whole_seeds(home: Path, planned: set[tuple[str, str]]) -> pd.DataFrame:
    """Return the kept lines of the `planned` rows (table, method) of each seed that has all of them
    from one base model."""
    kept = [pd.DataFrame(columns=LINE), *map(lines_of, files(home))]
    kept = pd.concat(kept, ignore_index=True)
    asked = [row in planned for row in zip(kept["table"], kept["method"], strict=True)]
    kept = kept[pd.Series(asked, kept.index, dtype=bool)]
    whole = {
        seed: lines
        for (seed, _), lines in kept.groupby(["seed", "base"], sort=False)
        if planned == set(zip(lines["table"], lines["method"], strict=True))
    }
    return pd.concat(whole.values() or [kept[:0]], ignore_index=True)


def of_paper(root: Path, claims: list[Claim]) -> list[Confirmed]:
    """Return what the whole seeds say of a paper's claims: of those that hypotheses decide, with
    the correction over all hypotheses, and of the others."""
    names = [claim.id for claim in claims if claim.id in DECIDED]
    found = [confirmed(root, "AB", [claim for claim in claims if claim.id not in names])]
    declared = confirmed(root, PARTS, load(HYPOTHESES)) if names else found[0]
    if names and len(declared.verdicts):
        verdicts, gaps = declared.verdicts.set_index("id"), declared.gaps.set_index("claim")
        verdicts = [verdicts.loc[[DECIDED[name]]].assign(id=name) for name in names]
        gaps = [gaps.loc[[DECIDED[name]]].assign(claim=name) for name in names]
        found.append(replace(declared, verdicts=pd.concat(verdicts), gaps=pd.concat(gaps)))
    return found


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
    both = [gaps.drop(index=old.index), own] if len(own) else [gaps]
    return by_id.reset_index()[verdicts.columns], pd.concat(both, ignore_index=True)
