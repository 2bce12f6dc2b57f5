"""The files of an evaluation's folder: problems, chunks of samples, then counts and rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from common.config.resolve import resolve
from common.datasets.prompts import check, unique
from common.errors import UserError
from common.evaluation.samples import Sampled, sample_rows, warn_cut_off
from common.metrics.report import from_counts, from_samples
from common.progress import tracked
from common.results.columns import COLUMNS
from common.results.files import read_jsonl, write_csv, write_jsonl_gz
from common.results.run import Run
from common.types import Prompt

TENS = (10, 100)  # the k of FADE's tables, besides powers of two


def problems(node: dict) -> list[Prompt]:
    """Return the benchmark's prompts. Raises UserError if there are none, or an id occurs twice."""
    prompts = check(resolve(node, "eval.prompts")(), "eval.prompts")
    unique(prompts, "eval.prompts id")
    return prompts


def keep_problems(run: Run, prompts: list[Prompt]) -> None:
    """Store the problems. Raises UserError if other ones are stored."""
    path, rows = run.path / "problems.jsonl.gz", [asdict(prompt) for prompt in prompts]
    if not path.exists():
        write_jsonl_gz(path, rows)
    elif read_jsonl(path) != rows:
        raise UserError(
            f"{path}: the benchmark's problems have changed since this run began; delete the "
            "folder to start again"
        )


def fill(
    run: Run, starts: list[int], make: Callable[[list[int]], Iterator[tuple[int, pd.DataFrame]]]
) -> None:
    """Write the chunks that do not exist yet, as `make` gives them, with a progress bar."""
    left = missing(run, starts)
    done = len(starts) - len(left)
    for start, made in tracked(make(left), run.run_id, total=len(starts), done=done):
        keep(run, start, made)


def missing(run: Run, starts: list[int]) -> list[int]:
    """Return those of the chunks that begin at the problems `starts` that do not exist yet."""
    left = [start for start in starts if not _file(run, start).exists()]
    if done := len(starts) - len(left):
        print(f"{run.path}: resumes after {done} of {len(starts)} chunks", file=sys.stderr)
    return left


def keep(run: Run, start: int, made: pd.DataFrame) -> None:
    rows = made.astype(object)
    # a missing text is NaN in pandas, null in JSON
    write_jsonl_gz(_file(run, start), rows.where(rows.notna(), None).to_dict("records"))


def _file(run: Run, start: int) -> Path:
    return run.path / "samples" / f"{start:07d}.jsonl.gz"


def stored(run: Path) -> pd.DataFrame:
    """Return all samples of a run without their responses and token ids."""
    rows, bulk = [], ("ids", "response")
    for path in sorted((run / "samples").glob("*.jsonl.gz")):
        rows += [{k: v for k, v in row.items() if k not in bulk} for row in read_jsonl(path)]
    return pd.DataFrame(rows)


def benchmark_of(run: Run) -> str:
    row = run.config.get("row")
    return row["benchmark"] if row else run.config["eval"]["name"]


def write_rows(run: Run, rows: pd.DataFrame, seed: int | None, step: int | None) -> None:
    """Write metrics.csv, for table "evaluation" or for the run's `row` at `step`."""
    row, model = run.config.get("row"), run.config["label"]
    where = {"table": "evaluation", "model": model, "seed": seed, "run_id": run.run_id}
    if row:
        where |= {name: row[name] for name in ("table", "method", "seed")} | {"step": step}
    rows = rows.assign(**where).reindex(columns=[*COLUMNS, "low", "high"])
    write_csv(run.path / "metrics.csv", rows)


def finish(run: Run, seed: int | None, step: int | None = None) -> None:
    """Write counts.csv and metrics.csv from the stored samples, then the DONE marker. If the run
    has a `row`, the counts are also written where a training run has them."""
    sampled = Sampled(benchmark_of(run), stored(run.path))
    counts = sampled.counts()
    n = int(counts["n"].min())
    ks = sorted({k for k in (*(2**i for i in range(n.bit_length())), *TENS) if k <= n} | {n})
    frames = [from_counts(counts, ks), from_samples(sampled.rows, sampled.benchmark)]
    rows = pd.concat([*frames, sample_rows(sampled)], ignore_index=True)
    if step is not None:
        write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
    write_csv(run.path / "counts.csv", counts)
    write_rows(run, rows, seed, step)
    limit = run.config.get("sampling", {}).get("max_tokens")  # imported samples have none
    if limit is not None:
        warn_cut_off(1 - sampled.rows["stopped"].astype(bool).mean(), "max_tokens", limit)
    run.finish()
