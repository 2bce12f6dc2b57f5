"""Import results that were made elsewhere, as run folders that the comparison finds
(docs/importing.md).

A file is CSV or JSONL, plain or gzipped, with one row per problem (problem_id, n, c: samples and
how many were correct), one row per sample (problem_id, correct: 1, 0, true or false) or one row per
number (metric, value, unit, and where they are known stderr, n_problems, n_samples). table, model,
method, benchmark, seed and step are columns too; a column with the same value everywhere may be
given on the command line instead. Nothing is written unless every row can be used.
"""

import glob
import re
import zlib
from pathlib import Path

import pandas as pd

from common.comparison.published import labels, published
from common.config.files import ROOT
from common.config.words import options
from common.errors import UserError, require
from common.metrics.passk import report
from common.results.checks import (
    EVALUATION,
    SHOWN,
    check_counts,
    check_names,
    check_rows,
    require_none,
)
from common.results.columns import COLUMNS
from common.results.files import config_hash, hashes, read_jsonl, write, write_csv
from common.results.run import Run

SPREAD = ["stderr", "n_problems", "n_samples"]  # columns of a number, where they are known
NUMBER = ["metric", "value", "unit"]
KNOWN = (*EVALUATION, "problem_id", "n", "c", "sample", "correct", "response", "distinct")
KNOWN += (*NUMBER, *SPREAD)
RUN = ["table", "model", "method", "seed"]  # identify one run
RIGHT = {"1": 1, "true": 1, "1.0": 1, "0": 0, "false": 0, "0.0": 0}


def main(words: list[str]) -> None:
    known = {"paper": "", "files": "", "source": "", "scope": "cluster", "results_dir": "results"}
    given = options(words, known | dict.fromkeys((*EVALUATION, "metric", "unit"), ""))
    for key in ("paper", "files", "source"):
        require(given[key] != "", key, "", f"is missing; give {key}=...")
    fixed = {name: given[name] for name in (*EVALUATION, "metric", "unit") if given[name]}
    for run in import_runs(
        given["paper"],
        sorted(glob.glob(given["files"], recursive=True)),
        given["source"],
        fixed,
        scope=given["scope"],
        root=Path(given["results_dir"]),
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
    home = ROOT / "papers" / paper
    require((home / "published").is_dir(), "paper", paper, "is not a paper of this repository")
    require(scope in ("laptop", "cluster"), "scope", scope, "use laptop or cluster")
    require(bool(files), "files", "", "matches no file; give a path or a quoted glob")
    printed, names = published(home / "published"), labels(home)
    frames = []
    for file in files:
        counts, messages = read_file(Path(file), fixed)
        if scope == "cluster":
            messages += check_names(counts, printed, file, names)
            if "value" in counts and not messages:
                messages += _not_printed(counts, printed, file)
        require_none(messages)
        frames.append(counts)
    kinds = {"value" in frame for frame in frames}
    require(len(kinds) == 1, "files", ", ".join(files), "import numbers and counts apart")
    counts = pd.concat(frames, ignore_index=True)
    check = check_rows if kinds == {True} else check_counts
    require_none(check(counts, ", ".join(files))[1])
    groups = list(counts.groupby(RUN, sort=False))
    runs = [_run_of(paper, scope, key, source, hashes(files)) for key, _ in groups]
    for (run_id, _), (_, part) in zip(runs, groups, strict=True):
        _not_there(root / paper, run_id, part, source)
    return [
        _write(root, run_id, config, part, source)
        for (run_id, config), (_, part) in zip(runs, groups, strict=True)
    ]


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


def _not_printed(rows: pd.DataFrame, printed: pd.DataFrame, file: str) -> list[str]:
    """Return a message for each row with a metric or unit that no printed number has. Such a row
    would stand for no cell."""
    messages = []
    for name in ("metric", "unit"):
        known = dict.fromkeys(printed[name].astype(str))
        for line in rows.index[~rows[name].astype(str).isin(known)]:
            shown = ", ".join(list(known)[:SHOWN])
            value = rows[name][line]
            messages.append(f"{file}:{line + 2}: {name}={value} is not printed; there is {shown}")
    return messages


def read_file(path: Path, fixed: dict[str, str]) -> tuple[pd.DataFrame, list[str]]:
    """Return (the counts in a file, or its numbers (a column `value`), with the columns EVALUATION;
    a message for each thing that is wrong with its rows). Raises UserError for a file that cannot
    be read, lacks a column, has an unknown one, or contradicts `fixed`."""
    frame = _frame(path)
    for name, value in fixed.items():
        if name in frame and (frame[name].astype(str) != value).any():
            raise UserError(f"{path}: {name}={value} was given, and the file has others; drop one")
        frame[name] = value
    unknown = [name for name in frame if name not in KNOWN]
    require(not unknown, f"{path}: column", unknown, f"unknown; known are {', '.join(KNOWN)}")
    sampled = "correct" in frame
    needed = [*EVALUATION, "problem_id", *(["correct"] if sampled else ["n", "c"])]
    if "value" in frame:
        needed = [*EVALUATION, *NUMBER]
    missing = [name for name in needed if name not in frame]
    require(not missing, f"{path}: column", missing, "is missing; add it, or give it as KEY=VALUE")
    messages = []
    for name in needed:
        for line in frame.index[frame[name].isna() | (frame[name].astype(str) == "")]:
            messages.append(f"{path}:{line + 2}: {name} is missing")
    for name in ("seed", "step"):
        number = pd.to_numeric(frame[name], errors="coerce")
        for line in frame.index[frame[name].notna() & ~((number >= 0) & (number % 1 == 0))]:
            messages.append(f"{path}:{line + 2}: {name}={frame[name][line]} is not a whole number")
        frame[name] = number
    if "value" in frame:
        return _numbers(frame, path, messages)
    if sampled:
        right = frame["correct"].astype(str).str.lower().map(RIGHT)
        for line in frame.index[right.isna() & frame["correct"].notna()]:
            messages.append(f"{path}:{line + 2}: correct={frame['correct'][line]}: use 1 or 0")
        if "sample" in frame:
            for line in frame.index[frame.duplicated([*EVALUATION, "problem_id", "sample"])]:
                messages.append(f"{path}:{line + 2}: the sample is there already")
        if messages:
            return frame, messages
        groups = frame.assign(right=right).groupby([*EVALUATION, "problem_id"], sort=False)["right"]
        frame = groups.agg(n="size", c="sum").reset_index()
    if messages:
        return frame, messages
    frame["problem_id"] = frame["problem_id"].astype(str)
    counts, messages = check_counts(frame, str(path))
    return counts.astype({"seed": int, "step": int}) if not messages else frame, messages


def _numbers(
    frame: pd.DataFrame, path: Path, messages: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return (the result rows of a file of numbers, messages on what is wrong with them)."""
    frame = frame.reindex(columns=[*EVALUATION, *NUMBER, *SPREAD])
    for name in SPREAD:
        number = pd.to_numeric(frame[name], errors="coerce")
        for line in frame.index[frame[name].notna() & ~(number >= 0)]:
            messages.append(f"{path}:{line + 2}: {name}={frame[name][line]}: use a number from 0")
        frame[name] = number
    frame["k"] = pd.to_numeric(frame["metric"].astype(str).str.extract(r"@(\d+)$")[0])
    rows, wrong = check_rows(frame, str(path))
    return rows if not wrong else frame, messages + wrong


def _frame(path: Path) -> pd.DataFrame:
    """Read a file into a table whose index + 2 is the line in the file."""
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = read_jsonl(path)
        wrong = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
        require(wrong is None, f"{path}:{wrong}", "", "must be one object a line")
        return pd.DataFrame(rows, index=range(-1, len(rows) - 1))
    try:
        return pd.read_csv(path, dtype={"problem_id": str})
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from error


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
    if "value" in counts:
        rows = counts.assign(run_id=run_id).reindex(columns=COLUMNS)
        write_csv(run.path / "metrics.csv", rows)
        run.finish(imported=source)
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
