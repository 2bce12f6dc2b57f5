"""Evaluation by vLLM: many samples per problem, on one GPU or, for tests, on a CPU.

A sample is defined as in rollout/local.py: the prompt is the text's own token ids, without chat
template or special tokens, and the same tokens end a response. Each call of `draw` sets one seed
and empties the prompt cache, so the same call gives the same samples on the same hardware and vLLM,
whatever the engine did before. (With a seed for each request vLLM's GPU sampler would draw one
request at a time, in Python.) Scheduling must be deterministic for this, so the engine's core runs
in this process (docs.vllm.ai, usage/reproducibility). One engine uses one GPU;
common/evaluation/workers.py runs an engine per GPU.
"""

import math
import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import torch

from common.errors import Fault, UserError, require
from common.models.teacher_forcing import Pair, scores
from common.rollout.local import end_tokens, token_ids
from common.seeds import generator
from common.types import Prompt

if TYPE_CHECKING:
    import vllm

# Environment variables that vLLM reads when it is imported; values that are set already stay.
EVERYWHERE = {
    "VLLM_LOGGING_LEVEL": "ERROR",  # its page of warnings at each start needs no user action
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # stdout is for the name of the run folder
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # a separate core would start before it has all requests
}
ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # vLLM would claim cores by number
}
# Mean |difference| of log-probabilities per token, in nats, up to which it is taken for rounding.
# In float32 it is about 1e-6. In bfloat16 a wrong temperature or another checkpoint still gives a
# difference well above the limit.
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.05}
# What is compared with the trainer at the start: prompts, responses to each, and their tokens.
COMPARED, RESPONSES, LENGTH = 4, 2, 16


def require_vllm() -> None:
    if find_spec("vllm") is None:
        raise UserError(
            "engine=vllm: vLLM is not installed in this environment; run `make setup-cluster` (on "
            "a machine without a GPU `make setup-cluster-cpu`) and use .venv-cluster/bin/python, "
            "or set engine=local"
        )


def engine(path: str, *, temperature: float, device: str, threads: int, **settings) -> "vllm.LLM":
    """Start vLLM with the Hugging Face checkpoint at `path`: bfloat16 on a GPU, float32 on a CPU.

    `temperature` is of the log-probabilities that it reports; `settings` are passed on to vLLM.
    Raises UserError if vLLM is missing, or was built for another `device`.
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
    step = llm.llm_engine.step

    def told():
        tell()
        return step()

    llm.llm_engine.step = told


def draw(
    llm: "vllm.LLM", tokenizer, prompts: list[Prompt], n: int, settings, seed: tuple
) -> list[tuple[str, int, float, bool, tuple[int, ...]]]:
    """Draw `n` responses to every prompt. Return rows (text, tokens, log_prob, stopped, ids), with
    the rows of a prompt together.

    log_prob is under softmax(logits / t) over the whole vocabulary, where t is local.py's `kept`
    for these settings, with which the engine was started. A prompt that leaves less than max_tokens
    of the context gets shorter responses. Raises UserError for a prompt that leaves nothing.
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
    """Return vLLM's completions, prompt by prompt in order."""
    from vllm import SamplingParams

    if not llm.reset_prefix_cache():  # the cached prompts decide which tokens share a step
        raise UserError("engine=vllm: its prompt cache is in use; draw one batch after another")
    llm.collective_rpc(_set_seed, args=(generator(*seed).initial_seed() % 2**32,))

    ids = token_ids(tokenizer, [prompt.text for prompt in prompts])
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
            logprobs=0,  # for the sampled token only
            flat_logprobs=True,
            detokenize=False,
            ignore_eos=True,  # the next line has all end tokens
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
    """vLLM samples from torch's generator; newer versions take seeds from numpy's (32 bits)."""
    np.random.seed(seed)
    torch.manual_seed(seed)  # for every device


def check_agreement(
    llm: "vllm.LLM", model, tokenizer, prompts: list[Prompt], temperature: float, seed: tuple
) -> float:
    """Return mean |log p of vLLM - log p of the trainer's `model`| per token, on a few samples
    without top-p. Raises UserError if they differ by more than rounding."""
    chosen = prompts[:COMPARED]
    drawn = _sample(
        llm,
        tokenizer,
        chosen,
        (*seed, "agreement"),
        n=RESPONSES,
        temperature=temperature,
        top_p=1.0,
        max_tokens=LENGTH,
    )
    ids = token_ids(tokenizer, [prompt.text for prompt in chosen])
    pairs: list[Pair] = [(ids[i // RESPONSES], one.token_ids) for i, one in enumerate(drawn)]
    expected = torch.cat([one for one, _ in scores(model, pairs, temperature=temperature)])
    reported = torch.tensor([value for one in drawn for value in token_log_probs(one)])
    mean = (reported - expected).abs().mean().item()
    tolerance = TOLERANCE[llm.model_config.dtype]
    if not (math.isfinite(mean) and mean <= tolerance):
        raise UserError(
            f"engine=vllm: its log-probabilities differ from the trainer's by {mean:.3g} nats a "
            f"token (at most {tolerance:g} is rounding); the usual cause is another temperature or "
            f"top-p than temperature={temperature:g} and 1, then other weights at model.path"
        )
    return mean


def token_log_probs(completion) -> list[float]:
    pairs = zip(completion.logprobs, completion.token_ids, strict=True)
    return [entry[token].logprob for entry, token in pairs]
