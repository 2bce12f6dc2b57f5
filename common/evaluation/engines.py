"""The engines that draw an evaluation's samples: the model in this process, or vLLM in others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from common.evaluation.config import Evaluate
from common.models.load import device, load_model, load_tokenizer
from common.models.store import folder
from common.rollout import vllm
from common.rollout.context import require_context
from common.rollout.local import draw, kept
from common.types import Prompt

Responses = list[tuple]  # (text, tokens, log_prob, stopped, ids); a problem's rows stand together


class Chunk(NamedTuple):
    """Some problems of one evaluation, whose samples are drawn together."""

    x: Evaluate
    start: int  # the number of its first problem
    every: list[Prompt]  # all problems of the evaluation
    of: Any  # who verifies and stores its rows

    @property
    def prompts(self) -> list[Prompt]:
        return self.every[self.start : self.start + self.x.per_chunk]


def like(x: Evaluate) -> str:
    """Return the settings that an engine is loaded with."""
    reported = kept(temperature=x.temperature, top_p=x.top_p) if x.engine == "vllm" else None
    split = (x.tensor_parallel or 1, reported)
    return repr((x.engine, x.model, x.results_dir, x.device, x.threads, *split))


def drawn_here(
    groups: Sequence[Iterator[Chunk]], on_chunk: Callable[[], None]
) -> Generator[tuple[Chunk, Responses]]:
    """Yield the chunks and their rows, drawn by engine=local; those of a group are alike (`like`).
    `on_chunk` is called before each. Raises UserError if a prompt exceeds the context."""
    for group in groups:
        loaded = x = None
        for chunk in group:
            on_chunk()
            model, tokenizer = loaded = loaded or local_model(chunk.x)
            if chunk.x is not x:
                x, texts = chunk.x, [prompt.text for prompt in chunk.every]
                require_context(model, tokenizer, texts, x.max_tokens, "max_tokens")
            yield chunk, drawn(partial(draw, model, tokenizer), x, chunk.start, chunk.prompts)


def drawn(engine: Callable, x: Evaluate, start: int, prompts: list[Prompt]) -> Responses:
    """Return the samples of the chunk at problem `start`; only seed and chunk decide them."""
    return engine(prompts, x.n, x, (x.seed, "evaluate", x.eval.name, start))


def local_model(x: Evaluate) -> tuple:
    torch.set_num_threads(x.threads)
    model, tokenizer = load_model(x.model, Path(x.results_dir), device(x.device))
    _warn_without_chat(x, tokenizer)
    return model, tokenizer


def _warn_without_chat(x: Evaluate, tokenizer) -> None:
    if x.model.chat is None and "role" in (tokenizer.chat_template or ""):
        print(
            "warning: the tokenizer has a chat template, which model.chat=null leaves out; add "
            "model.chat=model, unless this is a base model",
            file=sys.stderr,
            flush=True,
        )


def vllm_engine(
    x: Evaluate, prompts: list[Prompt], tell: Callable[[], None], checks: bool = True
) -> Callable:
    """Return a function (prompts, n, settings, seed) -> rows that samples with vLLM. With `checks`,
    vLLM is first compared with the trainer's model, which takes 4 bytes of main memory per
    parameter. `tell` is called before each engine step, one token of every response in progress."""
    vllm.require_vllm()
    path = folder(x.model, Path(x.results_dir))
    if checks:
        model, tokenizer = load_model(x.model, Path(x.results_dir), "cpu")
    else:
        tokenizer = load_tokenizer(path, key="model.path")
    _warn_without_chat(x, tokenizer)
    split = {"tensor_parallel_size": x.tensor_parallel or 1}
    reported = kept(temperature=x.temperature, top_p=x.top_p)
    llm = vllm.engine(path, temperature=reported, device=x.device, threads=x.threads, **split)
    vllm.before_steps(llm, tell)
    if checks:
        vllm.check_agreement(llm, model, tokenizer, prompts, reported, (x.seed, x.eval.name))
    return lambda prompts, n, settings, seed: vllm.draw(llm, tokenizer, prompts, n, settings, seed)
