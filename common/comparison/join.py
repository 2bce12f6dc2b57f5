"""Adds the tables of finished runs to those that are stored, and judges again.

    rlvr join [results_dir=results] [into=results/reference] [papers=all] [scope=laptop]
              [stored=keep]

For each paper the finished runs below `results_dir` are gathered, and of each table of
<results_dir>/<paper>/<scope>/ the rows of runs that the stored table lacks are added to it. A run
is a table, a method and a seed. One that is stored already stays as it is: a rerun on another
processor has other numbers. stored=replace takes the rerun in its place: in a copy of the stored
results this shows whether verdicts depend on the processor. A table that is not stored yet begins
with the runs that are added, one over seeds (means, fits) is passed over: it is made again from the
others. Where a stored run is of another row, nothing is joined. Then the figures and verdicts of
`into` are made again, as by `rlvr figures` and `rlvr compare`.
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
RUN = ["table", "method", "seed"]  # what a row of any table may be known by, beside its run_id


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
    """Add to each table of `target` the rows of runs that only `source` has, or all of its runs in
    place of those that are there; how many runs.

    Raises UserError where a run stands in both as runs of two rows, or a table of `source` has
    other columns than that of `target`. Hashes may differ: what is stored was made before.
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
    """A table as it is written, so that what was stored stays to the letter."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _runs(folder: Path) -> pd.Series:
    """run_id of each run of a folder's rows, by RUN."""
    rows = _text(folder / "metrics.csv")[[*RUN, "run_id"]]
    return rows.drop_duplicates().set_index(RUN)["run_id"]


def _row(run_id: str) -> str:
    """A run id without its hash."""
    return run_id.rpartition("-")[0]


def _of_runs(frame: pd.DataFrame, runs: pd.Series, path: Path) -> pd.DataFrame:
    """The rows of some runs (`_runs`): by run_id, or by what the table has of RUN."""
    if "run_id" in frame:
        return frame[frame["run_id"].isin(runs)]
    by = [name for name in RUN if name in frame]
    keys = runs.reset_index()
    if "table" not in by:  # the table's name is the file's: <table>_training.csv
        named = [path.name.startswith(f"{table}_") for table in keys["table"]]
        keys = keys[pd.Series(named, keys.index, dtype=bool)]
    if not {"method", "seed"} <= set(by):  # over seeds: made again from the others
        return frame[:0]
    return frame[pd.MultiIndex.from_frame(frame[by]).isin(pd.MultiIndex.from_frame(keys[by]))]
