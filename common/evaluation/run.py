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

A chunk is written whole or not at all. So a killed run loses at most the chunk in progress (with
vLLM one per engine), and its samples do not depend on where it was stopped. `rlvr evaluate --help`
lists options.

With `scores` nothing is sampled: samples/ holds what the model says of the samples of that folder
(scoring.py), and there are no problems and no counts.

With `row` a trained model is evaluated for a paper's table. The folder is then a run folder of that
paper, results/<paper>/<run id of the training>-<benchmark>-<hash>/, which the paper's comparison
gathers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from common.datasets.commits import read_from
from common.datasets.templates import of_model
from common.errors import UserError
from common.evaluation import checkpoints
from common.evaluation.config import Evaluate
from common.evaluation.engines import drawn_here
from common.evaluation.store import fill, finish, keep_problems, problems
from common.evaluation.workers import drawn_by_vllm
from common.results.files import write_json
from common.results.run import Run
from common.verifiers.guard import guarded
from common.verifiers.pool import Pool


def evaluate(x: Evaluate, on_chunk: Callable[[], None] = lambda: None) -> Path:
    """Sample, verify and measure; return the run folder. A finished run is found, not repeated.

    `on_chunk` is called when all that was made so far is stored: before each chunk, with vLLM also
    while chunks are drawn. Raises UserError if a trained model is not finished, or is another one
    than when the run began.
    """
    if (x.path / "DONE").exists():
        print(f"{x.path}: finished earlier, found", file=sys.stderr)
        return x.path
    if x.engine == "local":
        from common.models.load import device

        device(x.device)  # fails before prompts are read
    step, config = None, x.identity()
    if x.row is not None:
        home = Path(x.results_dir) / x.row.paper
        baseline = home / x.row.baseline if x.row.baseline else None
        step, config = 0, config | {"scope": x.row.scope, "row": asdict(x.row)}
        taken = checkpoints.Checkpoint(0, 0, str(x.model.path), "")
        if x.row.checkpoint != checkpoints.UNTRAINED:
            trained = home / x.row.trained
            given = (x.row.checkpoint, baseline, x.eval.name, x.row.steps)
            taken = checkpoints.choose(trained, *given)
            step = taken.step
            x = replace(x, model=replace(x.model, path=str(trained / taken.folder)))
    asked = of_model(x.eval.prompts, x.model.path, x.model.revision)
    prompts = [] if x.scores else problems(asked)[: x.limit]
    run = Run(Path(x.results_dir), x.path.parent.name, x.path.name, config)
    if step is not None:
        keep_checkpoint(run, taken)
    if x.scores:
        from common.evaluation.scoring import score  # torch: only where it is needed

        return score(x, run, step, on_chunk)
    keep_problems(run, prompts)
    run.keep_sets(read_from(asked))
    settings: dict = {"workers": x.workers, "deadline": x.eval.deadline}
    settings |= {"memory_gb": x.memory_gb}
    with Pool(x.eval.verifier, **settings) as pool:
        verify = guarded(pool.map, x.eval.verifier, max_faults=1.0)  # faults are outcomes here
        draws = drawn_by_vllm if x.engine == "vllm" else drawn_here

        def made(starts: list[int]) -> Iterator[tuple[int, pd.DataFrame]]:
            from common.evaluation.samples import scored

            with closing(draws(x, prompts, starts, on_chunk)) as drawn:
                for start, rows in drawn:
                    chosen = prompts[start : start + x.per_chunk]
                    found = scored(chosen, x.n, rows, verify)
                    # the cases in which rollout.local.kept changes the temperature
                    if x.temperature == 0 or (x.top_p < 1 and x.temperature != 1):
                        found = found.assign(raw_log_prob=found["log_prob"], log_prob=None)
                    yield start, found

        fill(run, list(range(0, len(prompts), x.per_chunk)), made)
    return finish(run, x.eval.name, x.label, x.seed, x.row, step)


def keep_checkpoint(run: Run, taken: checkpoints.Checkpoint) -> None:
    """Store which checkpoint is evaluated, or compare it with the one stored when the run began.
    Raises UserError if they differ."""
    path, now = run.path / "checkpoint.json", asdict(taken)
    if not path.exists():
        write_json(path, now)
        return
    before = json.loads(path.read_text())
    if any(before[key] != now[key] for key in ("step", "chosen")):  # its folder may have moved
        raise UserError(
            f"{path}: the training has other checkpoints than when this run began (now "
            f"{taken.folder}); delete the folder to start again"
        )
