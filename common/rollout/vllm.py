"""Evaluation by vLLM: many samples a problem, on one GPU or, for tests, on a CPU.

`engine` starts vLLM, `draw` has the shape of `rollout.local.draw`, `check_agreement` compares its
log-probabilities with the trainer's. What a sample is, is what the local engine makes of it: the
prompt is the text's own token ids (no chat template, no special tokens), a response ends at the
tokenizer's end token or at one that the model's generation_config.json names, and the text is
decoded by the same tokenizer.

A problem's samples share its prompt's cache blocks. One seed is set before each call of `draw`,
where the prompt cache is emptied too, so what it returns does not depend on what the engine did
before: the same call gives the same samples on the same hardware with the same vLLM. A seed a
request would make them independent of their company too, but vLLM's GPU sampler then draws one
request at a time, in Python. Scheduling has to be deterministic for this, so the engine's core
runs in this process (docs.vllm.ai, usage/reproducibility).

One engine uses one GPU; common/evaluation/workers.py runs one a GPU side by side.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import torch

from common.errors import Fault, UserError, require
from common.models.policy import log_probs
from common.rollout.local import encode, end_tokens
from common.seeds import generator
from common.types import Prompt, RolloutBatch

if TYPE_CHECKING:
    import vllm

# Read by vLLM when it is imported; whoever sets one of them before us is heeded.
EVERYWHERE = {
    "VLLM_LOGGING_LEVEL": "ERROR",  # its warnings, a page at each start, ask nothing of the user
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # stdout is for the name of the run folder
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # in a process of its own it starts on what came first
}
ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # vLLM would claim cores by number
}
# Mean |difference| of log-probabilities a token, nats, that is taken for rounding. In float32 it
# is about 1e-6; in bfloat16 a wrong temperature or another checkpoint still lie well above.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.05}


@dataclass(frozen=True)
class Check:
    """The samples that are compared with the trainer at the start."""

    prompts: int = 4
    samples: int = 2
    tokens: int = 16


def require_vllm() -> None:
    if find_spec("vllm") is None:
        raise UserError(
            "engine=vllm: vLLM is not installed in this environment; run `make setup-cluster` (on "
            "a machine without a GPU `make setup-cluster-cpu`) and use .venv-cluster/bin/python, "
            "or set engine=local"
        )


def engine(path: str, *, temperature: float, device: str, threads: int, **settings) -> "vllm.LLM":
    """vLLM with the Hugging Face checkpoint at `path`: bfloat16 on a GPU, float32 on a CPU.

    `temperature` is that of the log-probabilities that it reports, `settings` are passed on.
    Raises UserError where vLLM is missing, or made for another `device` than asked for.
    """
    require_vllm()
    for key, value in EVERYWHERE.items():
        os.environ.setdefault(key, value)
    from vllm.platforms import current_platform

    on_cpu = current_platform.is_cpu()
    made_for = "cpu" if on_cpu else "cuda"
    remedy = f"the vLLM that is installed here is made for {made_for}"
    require(device in ("auto", made_for), "device", device, remedy)
    if on_cpu:
        for key, value in ON_CPU.items():
            os.environ.setdefault(key, value)
        torch.set_num_threads(threads)
    import vllm

    return vllm.LLM(
        path,
        dtype="float32" if on_cpu else "bfloat16",
        enforce_eager=on_cpu,
        enable_prefix_caching=True,
        logprobs_mode="raw_logprobs" if temperature == 1 else "processed_logprobs",
        **settings,
    )


def before_steps(llm: "vllm.LLM", tell: Callable[[], None]) -> None:
    """Call `tell` before each step of this engine."""
    step = llm.llm_engine.step

    def told():
        tell()
        return step()

    llm.llm_engine.step = told


def draw(
    llm: "vllm.LLM", tokenizer, prompts: list[Prompt], n: int, settings, seed: tuple
) -> list[tuple[str, int, float, bool, tuple[int, ...]]]:
    """`n` responses to every prompt, a prompt's together, as rows (text, tokens, log_prob,
    stopped, ids).

    `settings` has temperature, top_p and max_tokens. log_prob is of softmax(logits / t) over the
    whole vocabulary, where t is what `kept` of local.py says of them, and what the engine was
    started with. A prompt that leaves less than max_tokens of the model's context gets responses of
    what is left. The same arguments give the same rows, whatever was drawn before. Raises UserError
    for a prompt that leaves nothing.
    """
    drawn = _sample(
        llm,
        tokenizer,
        prompts,
        seed,
        n=n,
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens,
    )
    texts = tokenizer.batch_decode([one.token_ids for one in drawn], skip_special_tokens=True)
    return [
        (
            text,
            len(one.token_ids),
            round(one.cumulative_logprob, 4),
            one.finish_reason == "stop",
            tuple(one.token_ids),
        )
        for text, one in zip(texts, drawn, strict=True)
    ]


def _sample(llm, tokenizer, prompts: list[Prompt], seed: tuple, **sampling) -> list:
    """vLLM's completions, a prompt's together in order; a function of these arguments."""
    from vllm import SamplingParams

    if not llm.reset_prefix_cache():  # what is cached decides which tokens share a step
        raise UserError("engine=vllm: its prompt cache is in use; draw one batch after another")
    llm.collective_rpc(_set_seed, args=(generator(*seed).initial_seed() % 2**32,))

    ids = prompt_ids(tokenizer, [prompt.text for prompt in prompts])
    limit, most = llm.model_config.max_model_len, sampling.pop("max_tokens")
    for prompt, one in zip(prompts, ids, strict=True):
        if len(one) >= limit:
            raise UserError(
                f"prompt {prompt.id}: has {len(one)} tokens, and the model's context is {limit}: "
                "no room for a response; drop the prompt or take a model with a longer context"
            )
    named = llm.model_config.try_get_generation_config().get("eos_token_id")
    ends = end_tokens(tokenizer, named)
    params = [
        SamplingParams(
            logprobs=0,  # of the sampled token only
            flat_logprobs=True,
            detokenize=False,
            ignore_eos=True,  # all ends are in the next line
            stop_token_ids=ends,
            max_tokens=min(most, limit - len(one)),
            **sampling,
        )
        for one in ids
    ]
    requests = [{"prompt_token_ids": one} for one in ids]
    found = []
    for output in llm.generate(requests, params, use_tqdm=False):
        found += sorted(output.outputs, key=lambda one: one.index)
    for one in found:
        if one.finish_reason not in ("stop", "length"):
            raise Fault(f"engine=vllm: a response ended with {one.finish_reason!r}; run again")
    return found


def _set_seed(worker, seed: int) -> None:
    """Called in vLLM's worker: its sampler draws from torch's stream, newer ones from seeds that
    come from numpy's (32 bits)."""
    np.random.seed(seed)
    torch.manual_seed(seed)  # of every device


def prompt_ids(tokenizer, texts: list[str]) -> list[list[int]]:
    """The local engine's token ids of each text, without its padding."""
    ids, mask = encode(tokenizer, texts, "cpu")
    return [row[real.bool()].tolist() for row, real in zip(ids, mask, strict=True)]


def check_agreement(
    llm: "vllm.LLM", model, tokenizer, prompts: list[Prompt], temperature: float, seed: tuple
) -> float:
    """Mean |log p of vLLM - log p of the trainer| a token, on a few samples of whole distributions.

    `model` is the checkpoint in transformers; its log-probabilities are those that training uses.
    Raises UserError where they differ by more than rounding.
    """
    shape = Check()
    chosen = prompts[: shape.prompts]
    drawn = _sample(
        llm,
        tokenizer,
        chosen,
        (*seed, "agreement"),
        n=shape.samples,
        temperature=temperature,
        top_p=1.0,
        max_tokens=shape.tokens,
    )
    ids, mask = encode(tokenizer, [prompt.text for prompt in chosen], model.device)
    response = torch.full((len(drawn), shape.tokens), tokenizer.eos_token_id, device=model.device)
    reported = torch.zeros(response.shape, device=model.device)
    real = torch.zeros(response.shape, device=model.device)
    for i, one in enumerate(drawn):
        length = len(one.token_ids)
        response[i, :length] = torch.tensor(one.token_ids)
        reported[i, :length] = torch.tensor(token_log_probs(one))
        real[i, :length] = 1
    stopped = torch.tensor([one.finish_reason == "stop" for one in drawn])
    batch = RolloutBatch(ids, mask, response, real, reported, stopped)
    with torch.no_grad():
        expected, _ = log_probs(model, batch, temperature)
    difference = torch.where(real > 0, (reported - expected).abs(), 0.0)
    mean = difference.sum().item() / real.sum().item()
    tolerance = TOLERANCE[llm.model_config.dtype]
    if not (math.isfinite(mean) and mean <= tolerance):
        raise UserError(
            f"engine=vllm: its log-probabilities differ from the trainer's by {mean:.3g} nats a "
            f"token (at most {tolerance:g} is rounding); the usual cause is another temperature or "
            f"top-p than temperature={temperature:g} and 1, then other weights at model.path"
        )
    return mean


def token_log_probs(completion) -> list[float]:
    """vLLM's log-probability of each sampled token."""
    pairs = zip(completion.logprobs, completion.token_ids, strict=True)
    return [entry[token].logprob for entry, token in pairs]
