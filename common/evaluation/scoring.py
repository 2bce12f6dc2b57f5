"""Scores stored samples with a model (common/models/teacher_forcing.py): exact entropies and
log-probabilities of the token ids drawn, or Delta NLL on a base model's rare right answers. The
weights are float32 and on one GPU, whatever engine drew the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pandas as pd
import yaml

from common.config.schema import Model
from common.config.strict import strict
from common.errors import UserError, require
from common.evaluation.checkpoints import COUNTS
from common.evaluation.config import SCORED, Evaluate
from common.evaluation.engines import local_model
from common.evaluation.rare_nll import SHARE, change_row, nll, rarest
from common.evaluation.samples import pairs
from common.evaluation.store import benchmark_of, fill, stored, write_rows
from common.metrics.report import from_scores
from common.models.teacher_forcing import scores
from common.results.files import read_csv, read_jsonl, write_jsonl_gz
from common.results.run import Run

KEPT = ("problem_id", "sample", "outcome", "tokens", "stopped")
MEASURED = ["log_prob", "entropy", "drawn_entropy"]  # the last at the samples' own temperature


def score(
    x: Evaluate, run: Run, step: int | None, last: dict, on_chunk: Callable[[], None]
) -> None:
    """Score the samples of the run folder `x.scores` with `x.model`. The samples/ of `run` then
    hold MEASURED of each response, sums over its tokens in nats. `last`: `_load`. Raises UserError
    if those samples are unfinished or lack token ids."""
    home = x.path.parent / str(x.scores)
    if not (home / "DONE").exists():
        raise UserError(f"scores={x.scores}: {home} is unfinished; this waits for its samples")
    rows = (_rare if x.eval.rare_share else _exact)(x, run, home, last, on_chunk)
    write_rows(run, rows, x.seed, step)
    run.finish()


def _exact(
    x: Evaluate, run: Run, home: Path, last: dict, on_chunk: Callable[[], None]
) -> pd.DataFrame:
    texts = {row["id"]: row["text"] for row in read_jsonl(home / "problems.jsonl.gz")}
    drawn = None if x.temperature in (0, 1) else x.temperature

    def made(starts: list[int]) -> Iterator[tuple[int, pd.DataFrame]]:
        for start, rows in _chunks(home):
            if start not in starts:
                continue
            on_chunk()
            model, tokenizer = _load(x.model, x, last)
            found = scores(model, pairs(rows, texts, tokenizer), also=drawn)
            sums = [tuple(round(float(one.sum()), 4) for one in values) for values in found]
            measured = pd.DataFrame(sums, columns=MEASURED[: len(sums[0])])
            yield start, pd.concat([pd.DataFrame(rows)[[*KEPT]], measured], axis=1)

    total = int(read_csv(home / "counts.csv", COUNTS)["n"].sum())
    fill(run, list(range(0, total, SCORED)), made)
    return from_scores(stored(run.path), benchmark_of(run))


def _rare(
    x: Evaluate, run: Run, home: Path, last: dict, on_chunk: Callable[[], None]
) -> pd.DataFrame:
    """Return one result row from the base model's samples in `home`; write those it used."""
    require(x.row is not None, "eval.rare_share", x.eval.rare_share, "needs a paper's row")
    chosen = rarest(stored(home), x.eval.rare_share or SHARE)
    if chosen.empty:
        raise UserError(f"{home}: the samples have no right answer; raise n={x.n}")
    wanted = set(zip(chosen["problem_id"], chosen["sample"], strict=True))
    every = (row for _, some in _chunks(home) for row in some)
    rows = [row for row in every if (row["problem_id"], row["sample"]) in wanted]
    texts = {row["id"]: row["text"] for row in read_jsonl(home / "problems.jsonl.gz")}
    config = yaml.safe_load((x.path.parent / x.row.trained / "config.yaml").read_text())
    for key, of in (("nll", strict(Model, config["model"])), ("trained_nll", x.model)):
        on_chunk()
        model, tokenizer = _load(of, x, last)
        values = nll(model, pairs(rows, texts, tokenizer))
        rows = [row | {key: value} for row, value in zip(rows, values, strict=True)]
        del model
    write_jsonl_gz(run.path / "rare.jsonl.gz", rows)
    return change_row(rows, [row["trained_nll"] for row in rows], x.row.benchmark)


def _load(model: Model, x: Evaluate, last: dict) -> tuple:
    """Return the model and its tokenizer, which `last` keeps for the next call."""
    if last.get("model") != model:
        last.clear()
        last |= {"pair": local_model(replace(x, model=model)), "model": model}
    return last["pair"]


def _chunks(home: Path) -> Iterator[tuple[int, list[dict]]]:
    """Yield a run's samples, SCORED at a time, each part with the number of its first sample."""
    files = sorted((home / "samples").glob("*.jsonl.gz"))
    every = (row for file in files for row in read_jsonl(file))
    start = 0
    while rows := list(islice(every, SCORED)):
        yield start, rows
        start += len(rows)
