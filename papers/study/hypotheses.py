"""The hypotheses of the confirmatory study, judged by PROTOCOL.md on the runs that the repository
keeps (common/results/kept.py)."""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from common.claims import judge
from common.claims.select import indexed
from common.comparison.frontier import DEV, at_equal_accuracy, pass_at_k_rows
from common.comparison.gather import LAPTOP
from common.results.kept import LINE, files, lines_of, unpacked
from common.sweeps.declared import parts
from common.sweeps.plan import scales_of

SEEDS = 9  # verdicts are given on nine whole seeds, not before
PARTS = ("A", "D")  # a testbed each; a seed is whole once all rows of its part are kept


def verdicts(root: Path) -> tuple[pd.DataFrame, str]:
    """Return (a row for each hypothesis, as `judge` returns them; how many seeds are whole) of the
    runs that are kept below `root`. A testbed with fewer than SEEDS whole seeds is not read."""
    stated = judge.load(Path(__file__).with_name("hypotheses.yaml"))
    tables = sorted({str(one["table"]) for claim in stated for one in claim.laptop.selectors})
    rows, counts, areas, said = [], [], {}, []
    runs = parts(scales_of("study", "scale=confirmatory"))
    for part in PARTS:
        home = root / runs[part][0].paper
        whole = whole_seeds(home, {(x.table, x.label) for x in runs[part]})
        seeds = len(whole.drop_duplicates("seed"))
        said.append(f"{home.name}: {seeds} of {SEEDS} seeds are whole")
        if seeds < SEEDS:
            continue
        own_rows, own_counts = (
            x[~x["benchmark"].str.startswith(DEV)] for x in unpacked(home, whole)
        )
        equal, behind = at_equal_accuracy(own_counts, tables)
        rows += [pass_at_k_rows(own_rows, own_counts), equal]
        counts.append(own_counts)
        areas |= behind
    if not rows:
        return pd.DataFrame(), "; ".join(said)
    index = replace(indexed(pd.concat(counts, ignore_index=True)), areas=areas)
    found, _, left_out = judge.judge(
        stated, {LAPTOP: pd.concat(rows, ignore_index=True)}, {LAPTOP: index}
    )
    return found, "; ".join([*said, *left_out])


def whole_seeds(home: Path, rows: set[tuple[str, str]]) -> pd.DataFrame:
    """Return the kept lines of each seed that has all `rows` (table, method) from one base model.
    Lines from another base model are left out."""
    kept = pd.concat([pd.DataFrame(columns=LINE), *map(lines_of, files(home))])
    whole = {
        seed: lines
        for (seed, _), lines in kept.groupby(["seed", "base"], sort=False)
        if rows <= set(zip(lines["table"], lines["method"], strict=True))
    }
    return pd.concat(whole.values() or [kept[:0]], ignore_index=True)
