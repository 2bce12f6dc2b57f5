"""Import counts that were made elsewhere, as run folders that the comparison with a paper finds.

    rlvr import paper=NAME files='GLOB' source='who, when, which code' [table=table1]
        [model=Qwen2.5-7B] [method=GRPO] [benchmark=MATH500] [seed=1] [step=1530] [scope=cluster]
        [results_dir=results]

A file is CSV, plain or gzipped, with one row per problem: problem_id, n (samples) and c (how many
were correct), and the columns table, model, method, benchmark, seed and step; a column with the
same value everywhere may be given on the command line instead (docs/data.md). `files` may be a
folder of such files too. Two files are never merged into one evaluation. An unusable row stops it.
"""

import glob
import gzip
import re
import sys
import zlib
from pathlib import Path

import pandas as pd

from common.comparison.published import labels, published
from common.config.files import ROOT, known_paper
from common.config.words import options
from common.errors import UserError, one_of, require
from common.metrics.passk import report
from common.results.checks import check_counts, check_names, require_none
from common.results.collect import finished_runs
from common.results.columns import COLUMNS, EVALUATION
from common.results.files import config_hash, hashes, read_csv, write, write_csv
from common.results.run import Run
from common.results.summary import summary

NEEDED = [*EVALUATION, "problem_id", "n", "c"]
RUN = ["table", "model", "method", "seed"]  # identify one run
KINDS = {  # how a file begins that holds no counts, and what it is
    b"PAR1": "a parquet table of samples",
    b"PK\x03\x04": "an archive, such as a log of inspect (`rlvr verify` judges its samples)",
    b"version https://git-lfs": "a pointer of Git LFS (fetch the file with `git lfs pull`)",
    b"{": "JSON, such as samples or results of lm-eval, inspect or verl",
    b"[": "JSON",
}
WORDS = {"paper": "", "files": "", "source": "", "scope": "cluster", "results_dir": "results"}


def main(words: list[str]) -> None:
    given = options(words, WORDS | dict.fromkeys(EVALUATION, ""))
    for key in ("paper", "files", "source"):
        require(given[key] != "", key, "", f"is missing; give {key}=...")
    fixed = {name: given[name] for name in EVALUATION if given[name]}
    files = matching(given["files"])
    said = "matches no file; give a path, a folder of .csv or .csv.gz files, or a quoted glob"
    require(bool(files), "files", given["files"], said)
    scope, root = given["scope"], Path(given["results_dir"])
    for run in import_runs(given["paper"], files, given["source"], fixed, scope=scope, root=root):
        print(summary(run, f"rlvr compare paper={given['paper']}"), file=sys.stderr)
        print(run)


def matching(pattern: str) -> list[str]:
    """Return the files that `pattern` names: a path, a folder or a glob."""
    path = Path(pattern)
    if path.is_dir():
        return sorted(str(file) for end in ("*.csv", "*.csv.gz") for file in path.glob(end))
    if path.exists():
        return [pattern]
    plain = pattern.replace("[", "[[]")
    return sorted(glob.glob(pattern, recursive=True) or glob.glob(plain, recursive=True))


def import_runs(
    paper: str, files: list[str], source: str, fixed: dict[str, str], *, scope: str, root: Path
) -> list[Path]:
    """Write one run folder for each table, model, method and seed in `files`. Return the folders.
    `fixed`: columns with the same value everywhere. Raises UserError, before it writes, for an
    unreadable file, a missing column and each unusable row, by file and line; and for an evaluation
    that two files hold, or that `root` has already."""
    home = ROOT / "papers" / known_paper(paper)
    one_of("scope", scope, ("laptop", "cluster"))
    printed, names = published(home / "published"), labels(home)
    frames = []
    for file in files:
        counts, messages = check_counts(read_file(Path(file), fixed), file)
        if scope == "cluster":
            messages += check_names(counts, printed, file, names)
        require_none(messages)
        frames.append(counts.assign(file=file))
    counts = pd.concat(frames, ignore_index=True)
    for key, part in counts.groupby(EVALUATION, sort=False):
        if part["file"].nunique() > 1:
            raise UserError(
                f"{' and '.join(part['file'].unique())}: both hold {_which(key)}. Import files of "
                "two models, seeds or reruns one at a time, with model=, method=, seed= or step=; "
                "leave copies out, and join the parts of one evaluation into one file"
            )
    about = {"paper": paper, "scope": scope, "imported": {"source": source, "files": hashes(files)}}
    runs = [(part, *_named(about, part)) for _, part in counts.groupby(RUN, sort=False)]
    _require_new(root, paper, counts, {root / paper / run_id for _, run_id, _ in runs})
    return [_write(Run(root, paper, run_id, config), part) for part, run_id, config in runs]


def read_file(path: Path, fixed: dict[str, str]) -> pd.DataFrame:
    """Return the counts in a file, with the columns NEEDED. Raises UserError for an unreadable
    file, one of KINDS, and a wrong, missing or unknown column or value."""
    require(not path.is_dir(), "files", path, f"is a folder; give its files, as in '{path}/*.csv'")
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
        for start, kind in KINDS.items():
            said = f"is {kind}; give counts as CSV (docs/data.md says how to count samples)"
            require(not head.startswith(start), "files", path, said)
        frame = pd.read_csv(path, dtype={"problem_id": str})
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    require(not frame.empty, "files", path, "has no row")
    for name, value in fixed.items():
        if name in frame and (frame[name].astype(str) != value).any():
            raise UserError(f"{path}: {name}={value} was given, but the file differs; drop one")
        frame[name] = value
    known = [*NEEDED, "distinct"]
    unknown = [name for name in frame if name not in known]
    require(not unknown, f"{path}: column", unknown, f"unknown; known are {', '.join(known)}")
    missing = [name for name in NEEDED if name not in frame]
    require(not missing, f"{path}: column", missing, "is missing; add it, or give it as KEY=VALUE")
    empty = frame[NEEDED].isna().stack()
    require_none([f"{path}:{line + 2}: {name} is missing" for line, name in empty[empty].index])
    try:
        return frame.astype({"seed": int, "step": int})
    except ValueError as error:
        raise UserError(f"{path}: seed, step: must be whole numbers ({error})") from error


def _which(key: tuple) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(EVALUATION, key, strict=True))


def _require_new(root: Path, paper: str, counts: pd.DataFrame, own: set[Path]) -> None:
    """Raise UserError for an evaluation that another run than `own` has: neither would count."""
    given = set(counts[EVALUATION].itertuples(index=False, name=None))
    for run in finished_runs(root, paper)[0].keys() - own:
        rows = read_csv(run / "metrics.csv")[EVALUATION].dropna().astype({"seed": int, "step": int})
        if both := given & set(rows.itertuples(index=False, name=None)):
            raise UserError(
                f"{_which(min(both))}: is in {run} already; remove that folder, or give this "
                "one another model=, method=, seed= or step="
            )


def _named(about: dict, counts: pd.DataFrame) -> tuple[str, dict]:
    row = counts[RUN].iloc[0].to_dict()
    config = about | {"table": row["table"], "model": {"name": row["model"]}}
    config |= {"label": row["method"], "seed": int(row["seed"])}
    readable = re.sub(r"[^\w.+-]+", "-", f"{row['model']}-{row['method']}")[-60:].strip("-.")
    return f"imported-{readable}-s{config['seed']}-{config_hash(config)}", config


def _write(run: Run, counts: pd.DataFrame) -> Path:
    if run.done:
        run.close()
        return run.path
    frames = []
    for (step, _), part in counts.groupby(["step", "benchmark"], sort=False):
        n = int(part["n"].iloc[0])
        ks = sorted({2**i for i in range(n.bit_length())} | {n})
        frames.append(report(part, ks).assign(step=step))
    for step, part in counts.groupby("step"):
        stored = part[["benchmark", "problem_id", "n", "c"]]
        write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", stored)
    last = f"step-{counts['step'].max():05d}-counts.csv"
    write(run.path / "counts.csv", (run.path / "eval" / last).read_bytes())
    row = counts[RUN].iloc[0].to_dict()
    rows = pd.concat(frames, ignore_index=True).assign(**row, run_id=run.run_id)
    write_csv(run.path / "metrics.csv", rows.reindex(columns=COLUMNS))
    run.finish(imported=run.config["imported"]["source"])
    return run.path
