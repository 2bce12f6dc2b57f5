"""Make or resume an evaluation run: results/evaluations/<model>-<benchmark>-<hash>/.

    config.yaml       all that the numbers depend on: model, benchmark with its prompts and verifier
                      (every option, also those left at their default), sampling
    checkpoint.json   only with `row`: which step of the training was taken, and why
    problems.jsonl.gz id, text and reference of every problem
    sets.json         the commit from which each public set was read
    samples/          one file per chunk of problems, one row per sample (`samples.COLUMNS`). If the
                      temperature is 0, or top_p is below 1 at another temperature than 1, log_prob
                      is missing, and raw_log_prob is that of the model's own distribution
                      (temperature 1, no top-p)
    counts.csv        benchmark, problem_id, n, c, distinct
    metrics.csv       result rows, and a 95 % interval (low, high) for those that have one
    rare.jsonl.gz     only with `scores` and `eval.rare_share`: the base model's rare right answers
                      and their NLL by both models
    meta.json, DONE   versions and provenance; hashes of all files

A chunk is written whole or not at all, so a killed run loses at most the chunk in progress (with
vLLM one per engine), and its samples do not depend on where it was stopped.

With `scores`, samples/ holds what the model says of the samples of that folder (scoring.py),
without problems and counts.

With `row` a trained model is evaluated for a paper's table, in results/<paper>/<run id of the
training>-<benchmark>-<hash>/, for its comparison.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from common.datasets.commits import read_from
from common.datasets.templates import of_model
from common.errors import UserError
from common.evaluation import checkpoints
from common.evaluation.config import Evaluate
from common.evaluation.engines import Chunk, Responses, drawn_here, like
from common.evaluation.samples import scored
from common.evaluation.scoring import score
from common.evaluation.store import finish, keep, keep_problems, missing, problems
from common.evaluation.workers import drawn_by_vllm, places
from common.models.load import device
from common.platforms import need_linux
from common.progress import tracked
from common.results.files import write_json
from common.results.run import Run
from common.types import Prompt
from common.verifiers.guard import guarded, prepare, seeing
from common.verifiers.pool import Pool


def evaluate(x: Evaluate, on_chunk: Callable[[], None] = lambda: None) -> Path:
    """Sample, verify and measure; return the run folder. As `evaluate_all`."""
    return evaluate_all([x], on_chunk)[0]


def evaluate_all(xs: Sequence[Evaluate], on_chunk: Callable[[], None] = lambda: None) -> list[Path]:
    """Sample, verify and measure one evaluation after another; return the run folders. A finished
    run is found, not repeated. A model is loaded once for all its evaluations. `on_chunk` is called
    when all that was made so far is stored: before each chunk, with vLLM also while chunks are
    drawn. Raises UserError if a trained model is unfinished or has changed since."""
    kinds: dict[str, dict[str, list[Pending]]] = {}
    for x in xs:
        if (x.path / "DONE").exists():
            print(f"{x.path}: finished earlier; not repeated", file=sys.stderr)
            continue
        if not x.scores:
            prepare(x.eval.verifier)  # before an engine starts, of whichever benchmark
        if x.engine == "local":
            device(x.device)  # fails before prompts are read
        else:
            need_linux("engine", x.engine, "use engine=local")
        one = Pending(x)
        alike = kinds.setdefault("scores" if x.scores else x.engine, {})
        alike.setdefault(like(one.x), []).append(one)
    for kind, alike in kinds.items():
        (_score if kind == "scores" else _sample)([*alike.values()], on_chunk)
    return [x.path for x in xs]


def _sample(groups: list[list[Pending]], on_chunk: Callable[[], None]) -> None:
    every, first = [one for group in groups for one in group], groups[0][0].x
    draws = partial(drawn_by_vllm, places(first)) if first.engine == "vllm" else drawn_here
    sizes = [one.x.sizes() or one.x.sizes(len(one.problems())) for one in every]
    there = [len([*(one.x.path / "samples").glob("*.jsonl.gz")]) for one in every]
    with ExitStack() as stack:
        lazy = [(chunk for one in group for chunk in one.chunks(stack)) for group in groups]
        drawn = stack.enter_context(closing(draws(lazy, on_chunk)))
        total = sum(map(len, sizes))
        for chunk, rows in tracked(drawn, first.path.name, total=total, done=sum(there)):
            chunk.of.keep(chunk, rows)


def _score(groups: list[list[Pending]], on_chunk: Callable[[], None]) -> None:
    last: dict = {}
    for one in (one for group in groups for one in group):
        score(one.x, one.hold(), one.step, last, on_chunk)


class Pending:
    """An unfinished evaluation. Its `x` has the checkpoint that its row asks for as its model. It
    begins with its first chunk, since its problems may be large."""

    def __init__(self, x: Evaluate):
        self.x, self.taken, self.step = x, None, None
        self.pool: Pool | None = None  # verifies from the first chunk to the last one
        if x.row is None:
            return
        self.taken, home = checkpoints.Checkpoint(0, str(x.model.path), ""), x.path.parent
        if x.row.checkpoint != checkpoints.UNTRAINED:
            trained = home / x.row.trained
            baseline = home / x.row.baseline if x.row.baseline else None
            self.taken = checkpoints.choose(trained, x.row.checkpoint, baseline, x.row.steps)
            path = str(trained / self.taken.folder)
            self.x = replace(x, model=replace(x.model, path=path))
        self.step = self.taken.step

    def problems(self) -> list[Prompt]:
        x = self.x
        self.asked = of_model(x.eval.prompts, x.model.path, x.model.revision)
        return problems(self.asked)[: x.limit]

    def hold(self) -> Run:
        x, config = self.x, self.x.identity()
        if x.row is not None:
            config |= {"scope": x.row.scope, "row": asdict(x.row)}
        run = Run(Path(x.results_dir), x.path.parent.name, x.path.name, config)
        if self.taken is not None:
            keep_checkpoint(run, self.taken)
        return run

    def chunks(self, stack: ExitStack) -> Iterator[Chunk]:
        """Yield the chunks that are missing. `stack` closes what is still open at its end."""
        prompts = self.problems()
        self.run, self.stack = self.hold(), stack
        keep_problems(self.run, prompts)
        self.run.keep_sets(read_from(self.asked))
        self.left = missing(self.run, [*range(0, len(prompts), self.x.per_chunk)])
        if not self.left:
            finish(self.run, self.x.seed, self.step)
        yield from [Chunk(self.x, start, prompts, self) for start in self.left]

    def keep(self, chunk: Chunk, rows: Responses) -> None:
        """Verify and store a chunk; with the last one, measure."""
        x, verifier = self.x, seeing(self.x.eval.verifier, chunk.prompts[0])
        if self.pool is None:
            settings: dict = {"workers": x.workers, "deadline": x.eval.deadline}
            pool = Pool(verifier, **settings, memory_gb=x.memory_gb)
            self.pool = self.stack.enter_context(pool)
        # faults are outcomes here
        verify = guarded(self.pool.map, verifier, max_faults=1.0)
        found = scored(chunk.prompts, x.n, [ended(row, x.stop) for row in rows], verify)
        # the cases in which rollout.local.kept changes the temperature
        if x.temperature == 0 or (x.top_p < 1 and x.temperature != 1):
            found = found.assign(raw_log_prob=found["log_prob"], log_prob=None)
        keep(self.run, chunk.start, found)
        self.left.remove(chunk.start)
        if not self.left:
            self.pool.close()
            finish(self.run, x.seed, self.step)


def ended(row: tuple, stop: list[str]) -> tuple:
    """Return an engine's row, whose response has ended before the first text of `stop`."""
    text, tokens, log_prob, stopped, ids = row
    said = re.split("|".join(map(re.escape, stop)) or r"\Z", text, maxsplit=1)[0]
    return said, tokens, log_prob, stopped or said != text, ids


def keep_checkpoint(run: Run, taken: checkpoints.Checkpoint) -> None:
    """Store which checkpoint is evaluated. Raises UserError if another one is stored."""
    path, now = run.path / "checkpoint.json", asdict(taken)
    if not path.exists():
        write_json(path, now)
        return
    if json.loads(path.read_text())["step"] != now["step"]:  # its folder may have moved
        raise UserError(
            f"{path}: the training has other checkpoints than when this run began (now "
            f"{taken.folder}); delete the folder to start again"
        )
