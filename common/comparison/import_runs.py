"""Import counts that were made elsewhere, as run folders that the comparison with a paper finds.

    rlvr import paper=NAME files='GLOB' source='who, when, which code' [table=table1]
        [model=Qwen2.5-7B] [method=GRPO] [benchmark=MATH500] [seed=1] [step=1530] [scope=cluster]
        [results_dir=results]

A file is CSV, plain or gzipped, with one row per problem: problem_id, n (samples) and c (how many
were correct), and the columns table, model, method, benchmark, seed and step; a column with the
same value everywhere may be given on the command line instead (docs/commands.md). Nothing is
written unless every row can be used.
"""

import glob
import re
import zlib
from pathlib import Path

import pandas as pd

from common.comparison.published import labels, published
from common.config.files import ROOT, known_paper
from common.config.words import options
from common.errors import UserError, one_of, require
from common.metrics.passk import report
from common.results.checks import EVALUATION, check_counts, check_names, require_none
from common.results.columns import COLUMNS
from common.results.files import config_hash, hashes, write, write_csv
from common.results.run import Run

NEEDED = [*EVALUATION, "problem_id", "n", "c"]
RUN = ["table", "model", "method", "seed"]  # identify one run
WORDS = {"paper": "", "files": "", "source": "", "scope": "cluster", "results_dir": "results"}


def main(words: list[str]) -> None:
    given = options(words, WORDS | dict.fromkeys(EVALUATION, ""))
    for key in ("paper", "files", "source"):
        require(given[key] != "", key, "", f"is missing; give {key}=...")
    fixed = {name: given[name] for name in EVALUATION if given[name]}
    files = sorted(glob.glob(given["files"], recursive=True))
    root = Path(given["results_dir"])
    for run in import_runs(
        given["paper"], files, given["source"], fixed, scope=given["scope"], root=root
    ):
        print(run)


def import_runs(
    paper: str, files: list[str], source: str, fixed: dict[str, str], *, scope: str, root: Path
) -> list[Path]:
    """Write one run folder for each table, model, method and seed in `files`. Return the folders.

    `fixed`: columns with the same value everywhere. Raises UserError, before anything is written,
    for a file that cannot be read, a column that is missing, and each row that cannot be used, by
    file and line.
    """
    home = ROOT / "papers" / known_paper(paper)
    one_of("scope", scope, ("laptop", "cluster"))
    require(bool(files), "files", "", "matches no file; give a path or a quoted glob")
    printed, names = published(home / "published"), labels(home)
    frames = []
    for file in files:
        counts, messages = read_file(Path(file), fixed)
        if scope == "cluster":
            messages += check_names(counts, printed, file, names)
        require_none(messages)
        frames.append(counts)
    counts = pd.concat(frames, ignore_index=True)
    require_none(check_counts(counts, ", ".join(files))[1])
    groups = list(counts.groupby(RUN, sort=False))
    runs = [_run_of(paper, scope, key, source, hashes(files)) for key, _ in groups]
    for (run_id, _), (_, part) in zip(runs, groups, strict=True):
        _not_there(root / paper, run_id, part, source)
    return [
        _write(root, run_id, config, part, source)
        for (run_id, config), (_, part) in zip(runs, groups, strict=True)
    ]


def read_file(path: Path, fixed: dict[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """Return (the counts in a file, with the columns NEEDED; a message for each thing that is wrong
    with its rows). Raises UserError for a file that cannot be read, lacks a column, has an unknown
    one, or contradicts `fixed`."""
    try:
        frame = pd.read_csv(path, dtype={"problem_id": str})
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error
    for name, value in fixed.items():
        if name in frame and (frame[name].astype(str) != value).any():
            raise UserError(f"{path}: {name}={value} was given, and the file has others; drop one")
        frame[name] = value
    known = [*NEEDED, "distinct"]
    unknown = [name for name in frame if name not in known]
    require(not unknown, f"{path}: column", unknown, f"unknown; known are {', '.join(known)}")
    missing = [name for name in NEEDED if name not in frame]
    require(not missing, f"{path}: column", missing, "is missing; add it, or give it as KEY=VALUE")
    messages = []
    for name in NEEDED:
        for line in frame.index[frame[name].isna()]:
            messages.append(f"{path}:{line + 2}: {name} is missing")
    for name in ("seed", "step"):
        number = pd.to_numeric(frame[name], errors="coerce")
        for line in frame.index[frame[name].notna() & ~((number >= 0) & (number % 1 == 0))]:
            messages.append(f"{path}:{line + 2}: {name}={frame[name][line]} is not a whole number")
        frame[name] = number
    if messages:
        return frame, messages
    counts, messages = check_counts(frame, str(path))
    return counts.astype({"seed": int, "step": int}), messages


def _not_there(home: Path, run_id: str, counts: pd.DataFrame, source: str) -> None:
    """Raise UserError where another finished run has one of these evaluations, because neither of
    two runs for one cell would count."""
    mine = pd.MultiIndex.from_frame(counts[EVALUATION].drop_duplicates().astype(str))
    for done in sorted(home.glob("*/DONE")):
        other = done.parent
        if other.name == run_id or not (other / "metrics.csv").exists():
            continue
        theirs = pd.read_csv(other / "metrics.csv", usecols=EVALUATION, dtype=str)
        same = mine[mine.isin(pd.MultiIndex.from_frame(theirs[EVALUATION]))]
        if len(same):
            which = ", ".join(f"{k}={v}" for k, v in zip(EVALUATION, same[0], strict=True))
            remedy = f"{other} has {which} already; remove that folder, or give another seed="
            raise UserError(f"source={source}: {remedy}")


def _run_of(paper: str, scope: str, key: tuple, source: str, files: dict) -> tuple[str, dict]:
    """Return (id, configuration) of the run of a table, model, method and seed."""
    row = dict(zip(RUN, key, strict=True))
    config = {
        "paper": paper,
        "scope": scope,
        "table": row["table"],
        "model": {"name": row["model"]},
        "label": row["method"],
        "seed": int(row["seed"]),
        "imported": {"source": source, "files": files},
    }
    readable = re.sub(r"[^\w.+-]+", "-", f"{row['model']}-{row['method']}")[-60:].strip("-.")
    return f"imported-{readable}-s{config['seed']}-{config_hash(config)}", config


def _write(root: Path, run_id: str, config: dict, counts: pd.DataFrame, source: str) -> Path:
    run = Run(root, config["paper"], run_id, config)
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
    named = counts[RUN].iloc[0].to_dict()
    rows = pd.concat(frames, ignore_index=True).assign(**named, run_id=run_id)
    write_csv(run.path / "metrics.csv", rows.reindex(columns=COLUMNS))
    run.finish(imported=source)
    return run.path
