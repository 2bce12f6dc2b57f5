"""What draws the samples of an evaluation: the model in this process, or vLLM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common.evaluation.config import Evaluate
from common.types import Prompt


def local_engine(x: Evaluate) -> Callable:
    """(prompts, n, settings, seed) -> rows, by the model in this process."""
    import torch

    from common.models.load import load_model
    from common.rollout.local import draw

    torch.set_num_threads(x.threads)
    cuda = x.device == "cuda" or (x.device == "auto" and torch.cuda.is_available())
    model, tokenizer = load_model(x.model, Path(x.results_dir), "cuda" if cuda else "cpu")
    return lambda prompts, n, settings, seed: draw(model, tokenizer, prompts, n, settings, seed)


def vllm_engine(x: Evaluate, prompts: list[Prompt]) -> Callable:
    """(prompts, n, settings, seed) -> rows, by vLLM; compared with the trainer's model first."""
    from common.models.load import load_model
    from common.models.store import folder
    from common.rollout import vllm

    vllm.require_vllm()
    model, tokenizer = load_model(x.model, Path(x.results_dir), "cpu")
    path = folder(x.model, Path(x.results_dir))
    llm = vllm.engine(path, temperature=x.temperature, device=x.device, threads=x.threads)
    vllm.check_agreement(llm, model, tokenizer, prompts, x.temperature, (x.seed, x.eval.name))
    return lambda prompts, n, settings, seed: vllm.draw(llm, tokenizer, prompts, n, settings, seed)
