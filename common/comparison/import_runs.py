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
    scope, root = given["scope"], Path(given["results_dir"])
    for run in import_runs(given["paper"], files, given["source"], fixed, scope=scope, root=root):
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
        counts, messages = check_counts(read_file(Path(file), fixed), file)
        if scope == "cluster":
            messages += check_names(counts, printed, file, names)
        require_none(messages)
        frames.append(counts)
    counts = pd.concat(frames, ignore_index=True)
    require_none(check_counts(counts, ", ".join(files))[1])
    about = {"paper": paper, "scope": scope, "imported": {"source": source, "files": hashes(files)}}
    return [_write(root, about, part) for _, part in counts.groupby(RUN, sort=False)]


def read_file(path: Path, fixed: dict[str, str]) -> pd.DataFrame:
    """Return the counts in a file, with the columns NEEDED. Raises UserError for a file that cannot
    be read, lacks a column or a value, has an unknown column, or contradicts `fixed`."""
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
    empty = frame[NEEDED].isna().stack()
    require_none([f"{path}:{line + 2}: {name} is missing" for line, name in empty[empty].index])
    try:
        return frame.astype({"seed": int, "step": int})
    except ValueError as error:
        raise UserError(f"{path}: seed, step: must be whole numbers ({error})") from error


def _write(root: Path, about: dict, counts: pd.DataFrame) -> Path:
    """Write the run folder of one table, model, method and seed. Return the folder."""
    row = counts[RUN].iloc[0].to_dict()
    config = {
        "paper": about["paper"],
        "scope": about["scope"],
        "table": row["table"],
        "model": {"name": row["model"]},
        "label": row["method"],
        "seed": int(row["seed"]),
        "imported": about["imported"],
    }
    readable = re.sub(r"[^\w.+-]+", "-", f"{row['model']}-{row['method']}")[-60:].strip("-.")
    run_id = f"imported-{readable}-s{config['seed']}-{config_hash(config)}"
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
    rows = pd.concat(frames, ignore_index=True).assign(**row, run_id=run_id)
    write_csv(run.path / "metrics.csv", rows.reindex(columns=COLUMNS))
    run.finish(imported=about["imported"]["source"])
    return run.path
