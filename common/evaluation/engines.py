"""The engines that draw an evaluation's samples: the model in this process, or vLLM in other
ones."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import torch

from common.evaluation.config import Evaluate
from common.models.load import device, load_model, load_tokenizer
from common.models.store import folder
from common.rollout import vllm
from common.rollout.context import require_context
from common.rollout.local import draw, kept
from common.types import Prompt

Rows = list[tuple]  # (text, tokens, log_prob, stopped, ids); a problem's rows stand together


def drawn_here(
    x: Evaluate, prompts: list[Prompt], starts: list[int], on_chunk: Callable[[], None]
) -> Generator[tuple[int, Rows]]:
    """Yield the chunks that begin at the problems `starts`, one after another, drawn by
    engine=local. `on_chunk` is called before each chunk."""
    engine = None
    for start in starts:
        on_chunk()
        if engine is None:
            engine = local_engine(x, prompts)
        yield start, chunk(engine, x, prompts, start)


def chunk(engine: Callable, x: Evaluate, prompts: list[Prompt], start: int) -> Rows:
    """Return the samples of the chunk that begins at problem `start`. They depend only on the
    evaluation's seed and on the chunk, not on what the engine drew before."""
    chosen = prompts[start : start + x.per_chunk]
    return engine(chosen, x.n, x, (x.seed, "evaluate", x.eval.name, start))


def local_engine(x: Evaluate, prompts: list[Prompt]) -> Callable:
    """Return a function (prompts, n, settings, seed) -> rows that samples with the model in this
    process."""
    torch.set_num_threads(x.threads)
    model, tokenizer = load_model(x.model, Path(x.results_dir), device(x.device))
    texts = [prompt.text for prompt in prompts]
    require_context(model, tokenizer, texts, x.max_tokens, "max_tokens")
    return lambda prompts, n, settings, seed: draw(model, tokenizer, prompts, n, settings, seed)


def vllm_engine(
    x: Evaluate, prompts: list[Prompt], tell: Callable[[], None], checks: bool = True
) -> Callable:
    """Return a function (prompts, n, settings, seed) -> rows that samples with vLLM. With `checks`,
    vLLM is first compared with the trainer's model, which takes 4 bytes of main memory per
    parameter. `tell` is called before each engine step, which draws one token of every response in
    progress."""
    vllm.require_vllm()
    path = folder(x.model, Path(x.results_dir))
    if checks:
        model, tokenizer = load_model(x.model, Path(x.results_dir), "cpu")
    else:
        tokenizer = load_tokenizer(path, key="model.path")
    split = {"tensor_parallel_size": x.tensor_parallel or 1}
    reported = kept(temperature=x.temperature, top_p=x.top_p)
    llm = vllm.engine(path, temperature=reported, device=x.device, threads=x.threads, **split)
    vllm.before_steps(llm, tell)
    if checks:
        vllm.check_agreement(llm, model, tokenizer, prompts, reported, (x.seed, x.eval.name))
    return lambda prompts, n, settings, seed: vllm.draw(llm, tokenizer, prompts, n, settings, seed)
