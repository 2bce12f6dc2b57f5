"""Add the tables of finished runs to the stored tables, and judge the claims again.

    rlvr join [results_dir=results] [into=results/reference] [papers=all] [scope=laptop]
              [stored=keep]

For each paper the finished runs below `results_dir` are gathered. From each table in
<results_dir>/<paper>/<scope>/, the rows of runs that the stored table lacks are added to it. A run
is identified by table, method and seed. A run that is stored already stays as it is, because a
rerun on another processor has other numbers. stored=replace puts the rerun in its place: in a copy
of the stored results this shows whether verdicts depend on the processor. A table that is not
stored yet begins with the runs that are added. A table over seeds (means, fits) is skipped, because
it is made again from the others. If a stored run belongs to another row (named configuration) than
the new one, nothing is joined. Then the figures and verdicts of `into` are made again, as by
`rlvr figures` and `rlvr compare`.
"""

import gzip
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pandas as pd

from common.comparison import figures
from common.comparison.compare import compare
from common.comparison.gather import LAPTOP, gather
from common.comparison.spec import spec_of
from common.config.words import options
from common.errors import UserError, one_of, require
from common.results.files import write

WORDS = {
    "results_dir": "results",
    "into": "results/reference",
    "papers": "all",
    "scope": LAPTOP,
    "stored": "keep",
}
RUN = ["table", "method", "seed"]  # columns that identify a run in any table, besides run_id


def main(words: list[str]) -> None:
    given = options(words, WORDS)
    root, into, scope = Path(given["results_dir"]), Path(given["into"]), given["scope"]
    require(root.resolve() != into.resolve(), "into", str(into), "name another folder")
    require(
        given["stored"] in ("keep", "replace"), "stored", given["stored"], "use keep or replace"
    )
    known = sorted(path.parent.parent.name for path in into.glob(f"*/{scope}/metrics.csv"))
    require(bool(known), "into", str(into), f"has no {scope}/metrics.csv of a paper")
    papers = known if given["papers"] == "all" else given["papers"].split(",")
    for paper in papers:
        one_of("papers", paper, known, "all")
    for paper in papers:
        found = gather(root, paper)
        found.write(root, paper)
        if LAPTOP in found.scopes and scope == LAPTOP:
            spec_of(paper).measure(root, found.scopes[LAPTOP])
        if not (root / paper / scope / "metrics.csv").exists():
            continue
        replace = given["stored"] == "replace"
        joined = join(root / paper / scope, into / paper / scope, replace=replace)
        print(f"{paper}: {joined} runs {'added or replaced' if replace else 'added'}")
    for paper in papers:
        with redirect_stdout(StringIO()):
            figures.draw(paper, into)
            compare(spec_of(paper), into)


def join(source: Path, target: Path, *, replace: bool = False) -> int:
    """Add to each table of `target` the rows of runs that only `source` has, or with `replace` all
    runs of `source`, in place of the stored ones. Return the number of these runs.

    Raises UserError where a run belongs to one row in `source` and to another in `target`, or a
    table of `source` has other columns than that of `target`. Hashes in run ids may differ, because
    the stored runs are older.
    """
    theirs, ours = _runs(target), _runs(source)
    both = theirs.rename("stored").to_frame().join(ours.rename("new"), how="inner")
    other = both[both["stored"].map(_row) != both["new"].map(_row)]
    if len(other):
        (table, method, seed), ids = next(other.iterrows())
        raise UserError(
            f"{source}: {method}, seed {seed}, of {table} is run {ids['new']}, stored is "
            f"{ids['stored']}: another row, nothing is joined; run it anew"
        )
    new = ours if replace else ours[~ours.index.isin(theirs.index)]
    joined = {}
    for path in sorted(source.glob("*.csv*")):
        fresh, stored = _of_runs(_text(path), new, path), target / path.name
        if len(fresh):
            before = _text(stored) if stored.exists() else fresh[:0]
            if list(before) != list(fresh):
                raise UserError(f"{path}: has columns {list(fresh)}, {stored} {list(before)}")
            kept = before.drop(_of_runs(before, new, path).index)
            joined[stored] = pd.concat([kept, fresh], ignore_index=True)
    for stored, frame in joined.items():
        text = frame.to_csv(index=False, lineterminator="\n").encode()
        write(stored, gzip.compress(text, mtime=0) if stored.suffix == ".gz" else text)
    return len(new)


def _text(path: Path) -> pd.DataFrame:
    """Read a table as text, so that stored values stay exactly as they are."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _runs(folder: Path) -> pd.Series:
    """Return the run_id of each run in a folder's metrics.csv, indexed by RUN."""
    rows = _text(folder / "metrics.csv")[[*RUN, "run_id"]]
    return rows.drop_duplicates().set_index(RUN)["run_id"]


def _row(run_id: str) -> str:
    """Return a run id without its hash."""
    return run_id.rpartition("-")[0]


def _of_runs(frame: pd.DataFrame, runs: pd.Series, path: Path) -> pd.DataFrame:
    """Return the rows of these runs (from `_runs`), matched by run_id, or else by the columns of
    RUN that the table has."""
    if "run_id" in frame:
        return frame[frame["run_id"].isin(runs)]
    by = [name for name in RUN if name in frame]
    keys = runs.reset_index()
    if "table" not in by:  # the file name has it: <table>_training.csv
        named = [path.name.startswith(f"{table}_") for table in keys["table"]]
        keys = keys[pd.Series(named, keys.index, dtype=bool)]
    if not {"method", "seed"} <= set(by):  # over seeds: made again from the others
        return frame[:0]
    return frame[pd.MultiIndex.from_frame(frame[by]).isin(pd.MultiIndex.from_frame(keys[by]))]
