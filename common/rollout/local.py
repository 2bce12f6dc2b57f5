"""The local rollout engine: sampled responses with log-probabilities, on CPU or one GPU."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from common import seeds
from common.config.schema import Evaluation
from common.errors import UserError, require
from common.models.load import input_ids
from common.rollout import recorded
from common.rollout.decoder import LlamaDecoder, make_decoder
from common.rollout.dlc import MemoryNetwork
from common.rollout.fit import parts, rows_that_fit
from common.types import Prompt, RolloutBatch

BLOCKS = 16  # finished rows leave the batch in blocks of 1 / BLOCKS of its rows


def token_ids(tokenizer, texts: list[str]) -> list[list[int]]:
    """Return the token ids of each text. Raises UserError for a text without any known token."""
    rows = input_ids(tokenizer, texts)
    if not all(rows):
        text = texts[[len(row) for row in rows].index(0)]
        raise UserError(
            f"prompt {text[:80]!r}: the model's tokenizer knows none of it; correct the template"
        )
    return rows


def encode(tokenizer, texts: list[str], device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `token_ids` left-padded, and their mask, (P, T_p)."""
    rows = token_ids(tokenizer, texts)
    width = max(map(len, rows))
    padded = [[tokenizer.pad_token_id] * (width - len(row)) + row for row in rows]
    real = torch.arange(width) >= width - torch.tensor([len(row) for row in rows])[:, None]
    return torch.tensor(padded).to(device), real.long().to(device)


@torch.no_grad()
def generate(
    model,
    prompt_ids: torch.Tensor,
    prompt_mask: torch.Tensor,
    *,
    group_size: int,
    temperature: float,
    max_tokens: int,
    eos_id: int,
    generator: torch.Generator,
    top_p: float = 1.0,
    reported: float | None = None,
    more_ends: Sequence[int] = (),
    dtype: torch.dtype | None = None,
    memory: MemoryNetwork | None = None,
    key: str = "sampling.max_tokens",
) -> RolloutBatch:
    """Sample `group_size` responses per prompt from softmax(logits / temperature), without top-k.
    With a memory network the logits are its calibrated ones (rollout/dlc.py).

    With `top_p` below 1 a token is drawn from the fewest tokens whose probabilities sum to `top_p`;
    at temperature 0 it is the likeliest. A response ends at `eos_id` or at one of `more_ends`.

    A group shares its prompt's cache. Each row (response) draws from its own stream of uniform
    numbers (inverse CDF), so its text does not depend on the rows beside it, nor on how rows that
    do not fit into memory together are split; rounding changes log-probabilities, and a token only
    if its uniform number lies that close to a border of the CDF.

    Returns a RolloutBatch. Its `log_probs` are under the policy at the temperature `reported`
    (None: `kept`), over the whole vocabulary, in float32. Raises UserError, which names `key`, if
    not even one row fits.
    """
    prompts, length = prompt_ids.shape
    ends = torch.tensor([eos_id, *sorted({*more_ends} - {eos_id})], device=prompt_ids.device)
    uniforms = torch.rand(max_tokens, prompts * group_size, generator=generator)
    uniforms = uniforms.to(prompt_ids.device).view(max_tokens, prompts, group_size)
    models = [model] if memory is None else [model, memory.model]
    mu = None if memory is None else memory.mu
    decoders = [make_decoder(one, max_tokens, dtype) for one in models]
    shared = prompt_ids.is_cuda and all(isinstance(one, LlamaDecoder) for one in decoders)
    rows = rows_that_fit(
        models, length, max_tokens, dtype or model.dtype, key, sharing=group_size if shared else 1
    )
    tokens = partial(
        draw_tokens,
        mu=mu,
        temperature=temperature,
        top_p=top_p,
        reported=reported or kept(temperature=temperature, top_p=top_p),
    )
    while True:
        try:
            pieces = [
                (recorded.decode if shared else _decode)(
                    decoders,
                    prompt_ids[some],
                    prompt_mask[some],
                    uniforms[:, some, of].flatten(1),
                    tokens=tokens,
                    ends=ends,
                )
                for some, of in parts(prompts, group_size, rows)
            ]
            break
        except torch.OutOfMemoryError:
            remedy = "one response exceeds the GPU's memory; lower this key or take a smaller model"
            rows = min(rows, prompts * group_size) // 2
            require(rows > 0, key, max_tokens, remedy)
    return _joined(prompt_ids, prompt_mask, pieces, ends)


def _joined(
    prompt_ids: torch.Tensor,
    prompt_mask: torch.Tensor,
    pieces: list[list[torch.Tensor]],
    ends: torch.Tensor,
) -> RolloutBatch:
    joined = [
        torch.cat(piece, 1) if len(piece) > 1 else piece[0] for piece in zip(*pieces, strict=True)
    ]
    ids, mask, log_probs, *sampler = (part.t().contiguous() for part in joined)
    lengths = mask.sum(1).long()
    stopped = _ended(ids.gather(1, (lengths - 1)[:, None])[:, 0], ends)
    width = int(lengths.max())
    return RolloutBatch(
        prompt_ids,
        prompt_mask,
        ids[:, :width],
        mask[:, :width],
        log_probs[:, :width],
        stopped,
        sampler[0][:, :width] if sampler else None,
    )


def _decode(
    decoders: list,
    prompt_ids: torch.Tensor,
    prompt_mask: torch.Tensor,
    uniforms: torch.Tensor,
    *,
    tokens: Callable,
    ends: torch.Tensor,
) -> list[torch.Tensor]:
    """Return token ids, mask and the log-probabilities of `tokens` (`draw_tokens`), each
    (T, rows)."""
    (max_tokens, rows), device, eos_id = uniforms.shape, prompt_ids.device, ends[0]
    group_size = rows // len(prompt_ids)
    # token first, so that the values written in one step are contiguous
    ids = eos_id.expand(max_tokens, rows).clone()
    mask, *found = (torch.zeros(max_tokens, rows, device=device) for _ in range(1 + len(decoders)))
    prefilled = [decoder.prefill(prompt_ids, prompt_mask) for decoder in decoders]
    logits = [one.repeat_interleave(group_size, 0) for one in prefilled]
    for decoder in decoders:
        decoder.repeat(group_size)
    active = torch.arange(rows, device=device)  # the rows that the decoder still holds
    running = torch.ones(rows, dtype=torch.bool, device=device)  # rows not yet finished
    # Rows leave in blocks: matrix products of few different sizes reuse their kernels.
    block = max(1, rows // BLOCKS)
    for t in range(max_tokens):
        token, log_probs = tokens(logits, uniforms[t].index_select(0, active))
        ids[t].index_copy_(0, active, torch.where(running, token, eos_id))
        for one, chosen in zip(found, log_probs, strict=True):
            one[t].index_copy_(0, active, chosen * running)
        mask[t].index_copy_(0, active, running.float())
        running = running & ~_ended(token, ends)
        left = int(running.sum())
        if t + 1 == max_tokens or left == 0:
            break
        size = -(-left // block) * block
        if size < len(active):
            # the running rows, and as many finished ones as fill the last block
            chosen = running.int().argsort(descending=True, stable=True)[:size].sort().values
            active, token, running = active[chosen], token[chosen], running[chosen]
            for decoder in decoders:
                decoder.keep(chosen)
        logits = [decoder.step(token) for decoder in decoders]
    return [ids, mask, *found]


def draw_tokens(
    logits: list[torch.Tensor],
    uniforms: torch.Tensor,
    *,
    mu: float | None,
    temperature: float,
    top_p: float,
    reported: float,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the tokens (B,) that `uniforms` (B,) draw, and the policy's log-probabilities of them
    at the temperature `reported`. With a memory network, whose logits (B, V) follow the policy's,
    the sampler's log-probabilities come second."""
    policy = logits[0]
    drawn_from = policy if mu is None else policy - mu * logits[1]
    log_p = tempered(drawn_from, reported)
    if temperature == 0:
        token = drawn_from.argmax(-1, keepdim=True)
    else:
        if top_p < 1:
            p = nucleus(drawn_from, temperature, top_p)
        else:
            p = (log_p if reported == temperature else tempered(drawn_from, temperature)).exp()
        cdf = p.cumsum(-1)
        threshold = uniforms[:, None] * cdf[:, -1:]
        token = torch.searchsorted(cdf, threshold, right=True).clamp_(max=cdf.shape[-1] - 1)
    found = [log_p] if mu is None else [tempered(policy, reported), log_p]
    return token[:, 0], [one.gather(1, token)[:, 0] for one in found]


def _ended(tokens: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return tokens == ends[0] if len(ends) == 1 else torch.isin(tokens, ends)


def tempered(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    return torch.log_softmax(logits if temperature == 1 else logits / temperature, -1)


def nucleus(logits: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """Return softmax(logits / temperature) on the fewest tokens that sum to `top_p` and 0
    elsewhere, (B, V), not normalised again."""
    p, order = tempered(logits, temperature).exp().sort(dim=-1, descending=True, stable=True)
    inside = p.cumsum(-1) - p < top_p  # the likeliest token always is
    return torch.zeros_like(p).scatter_(-1, order, p * inside)


def kept(*, temperature: float, top_p: float) -> float:
    """Return the temperature of the log-probabilities that are stored for responses drawn with
    these settings; with top-p or at temperature 0 they are the model's own, at temperature 1. (vLLM
    has them before the temperature or after both temperature and top-p.)"""
    return temperature if top_p == 1 and temperature > 0 else 1.0


def end_tokens(tokenizer, named: int | Sequence[int] | None) -> list[int]:
    """Return the tokens that end a response: the tokenizer's end token, and those `named` by
    eos_token_id of generation_config.json (such as Llama 3.2 Instruct's), at which verl's servers
    stop too."""
    more = [named] if isinstance(named, int) else named or []
    return sorted({tokenizer.eos_token_id, *more})


def ends_of(model, tokenizer) -> list[int]:
    generation = getattr(model, "generation_config", None)
    return end_tokens(tokenizer, getattr(generation, "eos_token_id", None))


def draw(
    model, tokenizer, prompts: list[Prompt], n: int, settings: Evaluation, seed: tuple
) -> list[tuple[str, int, float, bool, tuple[int, ...]]]:
    """Draw `n` responses to every prompt. Return rows (text, tokens, log_prob, stopped, ids), with
    the rows of a prompt together.

    `settings.batch` is the number of sequences decoded at once. Every engine is such a function of
    (prompts, n, settings, seed); the same arguments give the same rows.
    """
    device = next(model.parameters()).device
    per_prompt = min(n, settings.batch)  # a prompt's samples are split when n exceeds the batch
    chunk = max(1, settings.batch // per_prompt)
    rows = [[] for _ in prompts]
    for start in range(0, len(prompts), chunk):
        chosen = prompts[start : start + chunk]
        ids, mask = encode(tokenizer, [prompt.text for prompt in chosen], device)
        for drawn in range(0, n, per_prompt):
            batch = generate(
                model,
                ids,
                mask,
                group_size=min(per_prompt, n - drawn),
                temperature=settings.temperature,
                top_p=getattr(settings, "top_p", 1.0),
                max_tokens=settings.max_tokens,
                eos_id=tokenizer.eos_token_id,
                more_ends=ends_of(model, tokenizer),
                generator=seeds.generator(*seed, start, drawn),
                key="eval.max_tokens",
            )
            lengths, log_probs = batch.mask.sum(1).int().tolist(), batch.log_probs.sum(1).tolist()
            padded = zip(batch.response_ids.tolist(), lengths, strict=True)
            tokens = [tuple(row[:length]) for row, length in padded]
            texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
            found = zip(texts, lengths, log_probs, batch.stopped.tolist(), tokens, strict=True)
            for i, (text, length, log_prob, stopped, drawn_ids) in enumerate(found):
                row = (text, length, round(log_prob, 4), stopped, drawn_ids)
                rows[start + i // batch.group_size].append(row)
    return [row for group in rows for row in group]
