"""The confirmatory study (papers/study/PROTOCOL.md) as hypotheses and claims read it: the seeds of
which the repository keeps every run of a part (common/results/kept.py)."""

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from common.claims import judge
from common.claims.file import LAPTOP, Claim
from common.claims.select import indexed
from common.comparison.frontier import DEV, at_equal_accuracy, pass_at_k_rows
from common.comparison.gather import NAMED
from common.config.files import STUDY
from common.results import provenance
from common.results.kept import LINE, files, lines_of, unpacked
from common.sweeps.plan import runs_of, scales_of

SEEDS = 9  # verdicts are given on nine whole seeds, not before


@dataclass(frozen=True)
class Confirmed:
    """What the whole seeds say of claims; without enough of them the tables are empty."""

    verdicts: pd.DataFrame  # as `judge` returns them, of the claims that these runs decide
    gaps: pd.DataFrame  # the comparisons behind them
    runs: pd.DataFrame  # provenance.COLUMNS
    said: str  # how many seeds of each part are whole
    left_out: list[str]  # messages


def confirmed(root: Path, parts: str, stated: list[Claim]) -> Confirmed:
    """Judge claims on the runs of `parts` that are kept below `root`. A part with fewer than SEEDS
    whole seeds is not read."""
    config = scales_of(STUDY, "scale=confirmatory")
    selectors = [one for claim in stated if claim.laptop for one in claim.laptop.selectors]
    tables = sorted({str(one.get("table", "")) for one in selectors})
    whole, said = dict[Path, list[pd.DataFrame]](), []
    for part in parts:
        sweeps = [one for one in config.sweeps if one.part == part]
        home = root / runs_of(config, sweeps[0])[0].paper
        begun = any(path.name.startswith(f"{part}-") for path in files(home))
        planned = [x for one in sweeps for x in runs_of(config, one)] if begun else []
        lines = whole_seeds(home, {(x.table, x.label) for x in planned})
        seeds = lines["seed"].nunique()
        said.append(f"part {part}: {seeds} of {SEEDS} seeds are whole")
        if seeds >= SEEDS:
            whole.setdefault(home, []).append(lines)
    rows, counts, runs, areas = [], [], [], {}
    for home, found in whole.items():
        lines = pd.concat(found, ignore_index=True)
        of_runs, drawn = (x[~x["benchmark"].str.startswith(DEV)] for x in unpacked(home, lines))
        equal, behind = at_equal_accuracy(drawn, tables)
        rows += [pass_at_k_rows(of_runs, drawn), equal]
        counts.append(drawn)
        runs.append(lines.drop_duplicates("run_id")[[*NAMED, "commit"]])
        areas |= behind
    if not rows:
        none = pd.DataFrame()
        return Confirmed(none, none, none, "; ".join(said), [])
    index = replace(indexed(pd.concat(counts, ignore_index=True)), areas=areas)
    of_laptop = {LAPTOP: pd.concat(rows, ignore_index=True)}
    verdicts, gaps, left_out = judge.judge(stated, of_laptop, {LAPTOP: index})
    about = {"scope": LAPTOP, "state": "reference", "detail": "results/reference keeps its counts"}
    kept = pd.concat(runs, ignore_index=True).assign(**about)
    kept = kept.reindex(columns=provenance.COLUMNS)
    return Confirmed(verdicts, gaps, kept, "; ".join(said), left_out)


def whole_seeds(home: Path, rows: set[tuple[str, str]]) -> pd.DataFrame:
    """Return the kept lines of `rows` (table, method) of each seed that has all of them from one
    base model."""
    kept = [pd.DataFrame(columns=LINE), *map(lines_of, files(home))]
    kept = pd.concat(kept, ignore_index=True)
    asked = [row in rows for row in zip(kept["table"], kept["method"], strict=True)]
    kept = kept[pd.Series(asked, kept.index, dtype=bool)]
    whole = {
        seed: lines
        for (seed, _), lines in kept.groupby(["seed", "base"], sort=False)
        if rows == set(zip(lines["table"], lines["method"], strict=True))
    }
    return pd.concat(whole.values() or [kept[:0]], ignore_index=True)


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
    gaps = pd.concat([gaps.drop(index=old.index), own], ignore_index=True)
    return by_id.reset_index()[verdicts.columns], gaps
