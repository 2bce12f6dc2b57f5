"""Evaluation runs: results/evaluations/<model>-<benchmark>-<hash>/, made, resumed, scored again.

    config.yaml       all that the numbers depend on: model, benchmark with its prompts and verifier
                      (every option, also those left at their default), sampling
    checkpoint.json   only with `row`: which step of the training was taken, and why
    problems.jsonl.gz id, text and reference of every problem
    samples/          one file a chunk of problems, one row a sample (`evaluate.COLUMNS`)
    counts.csv        benchmark, problem_id, n, c, distinct
    metrics.csv       result rows, and a 95 % interval (low, high) for those that have one
    meta.json, DONE   versions and provenance; hashes of all files

A chunk is written whole or not at all, so a killed run loses at most the chunk that it was at, and
its samples do not depend on where it was stopped. `python -m common.evaluate --help` lists options.

With `row` a trained model is evaluated for a paper's table, and the folder is a run folder of that
paper, results/<paper>/<run id of the training>-<benchmark>-<hash>/, which its comparison gathers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from common import checkpoints
from common.cli import guard
from common.cli import main as hydra_main
from common.errors import UserError, require
from common.evaluation import Evaluate, Row
from common.experiment import resolve
from common.results import COLUMNS, Run, read_jsonl, write_csv, write_json, write_jsonl_gz
from common.types import Prompt
from common.verifiers.guard import guarded
from common.verifiers.pool import Pool

if TYPE_CHECKING:
    import pandas as pd

CONFIGS = ".."  # of `common.cli`: configs/ itself, where a paper's name would mean papers/<paper>


def evaluate(x: Evaluate, between: Callable[[], None] = lambda: None) -> Path:
    """Sample, verify and measure; returns the run folder. A finished run is found, not repeated.

    `between` is called before each chunk, where all that was made so far is stored. Raises
    UserError where a trained model is not finished, or is another than when the run began.
    """
    if (x.path / "DONE").exists():
        return x.path
    step, config = None, x.identity()
    if x.row is not None:
        home = Path(x.results_dir) / x.row.paper
        baseline = home / x.row.baseline if x.row.baseline else None
        taken = checkpoints.choose(home / x.row.trained, x.row.checkpoint, baseline)
        step, config = taken.step, config | {"scope": x.row.scope}
        x = replace(x, model=replace(x.model, path=str(home / x.row.trained / taken.folder)))
    prompts = problems(x.eval.prompts)
    run = Run(Path(x.results_dir), x.path.parent.name, x.path.name, config)
    if step is not None:
        keep_checkpoint(run, taken)
    keep_problems(run, prompts)
    size = max(1, x.batch // x.n)  # problems a chunk
    settings = {"workers": x.workers, "deadline": x.eval.deadline, "memory_gb": x.memory_gb}
    with Pool(x.eval.verifier, **settings) as pool:
        verify = guarded(pool.map, x.eval.verifier, max_faults=1.0)  # faults are outcomes here
        engine = None

        def chunk(start: int) -> pd.DataFrame:
            from common.evaluate import scored

            nonlocal engine
            between()
            if engine is None:  # not loaded where every chunk is there
                engine = vllm_engine(x, prompts) if x.engine == "vllm" else local_engine(x)
            chosen = prompts[start : start + size]
            seed = (x.seed, "evaluate", x.eval.name, start)
            return scored(chosen, x.n, engine(chosen, x.n, x, seed), verify)

        fill(run, list(range(0, len(prompts), size)), chunk)
    return finish(run, x.eval.name, x.label, x.seed, x.row, step)


def local_engine(x: Evaluate) -> Callable:
    """(prompts, n, settings, seed) -> rows, by the model in this process."""
    import torch

    from common import models
    from common.evaluate import draw

    torch.set_num_threads(x.threads)
    cuda = x.device == "cuda" or (x.device == "auto" and torch.cuda.is_available())
    model, tokenizer = models.load(x.model, Path(x.results_dir), "cuda" if cuda else "cpu")
    return lambda prompts, n, settings, seed: draw(model, tokenizer, prompts, n, settings, seed)


def vllm_engine(x: Evaluate, prompts: list[Prompt]) -> Callable:
    """(prompts, n, settings, seed) -> rows, by vLLM; compared with the trainer's model first."""
    from common import models
    from common.rollout import vllm

    vllm.require_vllm()
    model, tokenizer = models.load(x.model, Path(x.results_dir), "cpu")
    path = models.folder(x.model, Path(x.results_dir))
    llm = vllm.engine(path, temperature=x.temperature, device=x.device, threads=x.threads)
    vllm.check_agreement(llm, model, tokenizer, prompts, x.temperature, (x.seed, x.eval.name))
    return lambda prompts, n, settings, seed: vllm.draw(llm, tokenizer, prompts, n, settings, seed)


# ---- what evaluating, importing and scoring again share


def problems(node: dict) -> list[Prompt]:
    """The benchmark's prompts. Raises UserError if there are none, or an id occurs twice."""
    from common.prompts import check

    prompts = check(resolve(node, "eval.prompts")(), "eval.prompts")
    seen = set()
    for prompt in prompts:
        require(prompt.id not in seen, "eval.prompts id", repr(prompt.id), "occurs twice")
        seen.add(prompt.id)
    return prompts


def keep_checkpoint(run: Run, taken: checkpoints.Checkpoint) -> None:
    """Store which checkpoint is evaluated, or compare with that of the run's beginning."""
    path = run.path / "checkpoint.json"
    if not path.exists():
        write_json(path, asdict(taken))
    elif json.loads(path.read_text()) != asdict(taken):
        raise UserError(
            f"{path}: the training has other checkpoints than when this run began (now "
            f"{taken.folder}); delete the folder to start again"
        )


def keep_problems(run: Run, prompts: list[Prompt]) -> None:
    """Store the problems, or compare with those stored when the run began."""
    path, rows = run.path / "problems.jsonl.gz", [asdict(prompt) for prompt in prompts]
    if not path.exists():
        write_jsonl_gz(path, rows)
    elif read_jsonl(path) != rows:
        raise UserError(
            f"{path}: the benchmark's problems have changed since this run began; delete the "
            "folder to start again"
        )


def fill(run: Run, starts: list[int], make: Callable[[int], pd.DataFrame]) -> None:
    """Write the chunks that are not there yet, with a progress bar."""
    from rich.console import Console
    from rich.progress import track

    paths = {start: run.path / "samples" / f"{start:07d}.jsonl.gz" for start in starts}
    missing = [start for start in starts if not paths[start].exists()]
    done = len(starts) - len(missing)
    if done:
        print(f"{run.path}: goes on after {done} of {len(starts)} chunks", file=sys.stderr)
    for start in track(missing, run.run_id, console=Console(stderr=True)):
        rows = make(start).astype(object)
        # pandas has NaN for a missing text, JSON null
        write_jsonl_gz(paths[start], rows.where(rows.notna(), None).to_dict("records"))


def stored(run: Path, with_response: bool = False) -> pd.DataFrame:
    """All samples of a run; responses, the bulk of them, only when asked for."""
    import pandas as pd

    rows = []
    for path in sorted((run / "samples").glob("*.jsonl.gz")):
        rows += [
            row if with_response else {k: v for k, v in row.items() if k != "response"}
            for row in read_jsonl(path)
        ]
    return pd.DataFrame(rows)


def finish(
    run: Run,
    benchmark: str,
    label: str,
    seed: int | None,
    row: Row | None = None,
    step: int | None = None,
) -> Path:
    """counts.csv and metrics.csv from the stored samples, then the DONE marker. The rows are of
    table "evaluation", or those of `row` at `step`, with the counts where a training run has them.
    """
    import pandas as pd

    from common.evaluate import Sampled, sample_rows
    from common.metrics.report import from_counts, from_samples

    sampled = Sampled(row.benchmark if row else benchmark, stored(run.path))
    counts = sampled.counts()
    n = int(counts["n"].min())
    ks = sorted({k for k in (2**i for i in range(n.bit_length())) if k <= n} | {n})
    frames = [from_counts(counts, ks), from_samples(sampled.rows, sampled.benchmark, ks)]
    rows = pd.concat([*frames, sample_rows(sampled)], ignore_index=True)
    where = {"table": "evaluation", "model": label, "seed": seed, "run_id": run.run_id}
    if row is not None:
        where |= {"table": row.table, "method": row.method, "seed": row.seed, "step": step}
        write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
    write_csv(run.path / "counts.csv", counts)
    rows = rows.assign(**where).reindex(columns=[*COLUMNS, "low", "high"])
    write_csv(run.path / "metrics.csv", rows)
    run.finish()
    return run.path


def main() -> None:
    """`python -m common.evaluate`: rescore= and import= read samples, anything else draws them."""
    given = dict(word.partition("=")[::2] for word in sys.argv[1:])
    if "rescore" in given:
        from common.rescore import rescore

        guard(lambda: rescore(sys.argv[1:]))
    elif "import" in given:
        from common.rescore import import_samples

        guard(lambda: import_samples(sys.argv[1:]))
    else:
        hydra_main(_sampled, Evaluate, CONFIGS, "evaluate")


def _sampled(x: Evaluate) -> None:
    print(evaluate(x))
