"""The local rollout engine: sampled responses with log-probabilities, on CPU or one GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from common.errors import UserError
from common.rollout.decoder import make_decoder
from common.rollout.dlc import CalibratedDecoder, MemoryNetwork
from common.types import Prompt, RolloutBatch

if TYPE_CHECKING:  # seconds: --help must not wait for them
    import torch

    from common.config.schema import Evaluation


def encode(tokenizer, texts: list[str], device) -> tuple[torch.Tensor, torch.Tensor]:
    """Left-padded prompt ids and mask, (P, T_p). Raises UserError for a text without any known
    token."""
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    if not all(rows):
        text = texts[[len(row) for row in rows].index(0)]
        raise UserError(
            f"prompt {text[:80]!r}: the model's tokenizer knows none of it; correct the template"
        )
    length = max(len(row) for row in rows)
    ids = torch.full((len(rows), length), tokenizer.pad_token_id)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, length - len(row) :] = torch.tensor(row)
        mask[i, length - len(row) :] = 1
    return ids.to(device), mask.to(device)


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
    dtype: torch.dtype | None = None,
    memory: MemoryNetwork | None = None,
) -> RolloutBatch:
    """`group_size` responses a prompt, drawn from softmax(logits / temperature), no top-k, no
    top-p; with a memory network from its calibrated logits (rollout/memory.py).

    The prompt is read once and shared by its group. Each row draws from its own stream of uniforms
    (inverse CDF), so what a row says does not depend on the rows beside it; finished rows leave the
    batch. The only synchronisation with the device is the count of finished rows.
    Returns a RolloutBatch; `log_probs` are those of the tempered policy, in float32.
    """
    device, rows = prompt_ids.device, prompt_ids.shape[0] * group_size
    uniforms = torch.rand(max_tokens, rows, generator=generator).to(device)
    # by token, so that what is written in a step lies together
    ids = torch.full((max_tokens, rows), eos_id, device=device)
    log_probs = torch.zeros(max_tokens, rows, device=device)
    mask = torch.zeros(max_tokens, rows, device=device)
    sampler_log_probs = None if memory is None else torch.zeros_like(log_probs)
    if memory is None:
        decoder = make_decoder(model, max_tokens, dtype)
    else:
        decoder = CalibratedDecoder(model, memory, max_tokens, dtype)
    logits = decoder.prefill(prompt_ids, prompt_mask).repeat_interleave(group_size, 0)
    decoder.repeat(group_size)
    active = torch.arange(rows, device=device)  # the rows that the decoder still holds
    running = torch.ones(rows, dtype=torch.bool, device=device)  # of those, not yet finished
    # Rows leave in blocks: products of few different sizes reuse the kernels made for them.
    block = max(1, rows // 16)
    for t in range(max_tokens):
        log_p = tempered(logits, temperature)
        cdf = log_p.exp().cumsum(-1)
        threshold = uniforms[t].index_select(0, active)[:, None] * cdf[:, -1:]
        token = torch.searchsorted(cdf, threshold, right=True)
        token = token.clamp_(max=cdf.shape[-1] - 1)
        ids[t].index_copy_(0, active, token[:, 0].masked_fill(~running, eos_id))
        chosen = log_p.gather(1, token)[:, 0] * running
        if memory is not None:
            sampler_log_probs[t].index_copy_(0, active, chosen)
            policy = tempered(decoder.policy, temperature)
            chosen = policy.gather(1, token)[:, 0] * running
        log_probs[t].index_copy_(0, active, chosen)
        mask[t].index_copy_(0, active, running.float())
        running = running & (token[:, 0] != eos_id)
        left = int(running.sum())
        if left == 0 or t + 1 == max_tokens:
            break
        size = -(-left // block) * block
        if size < len(active):
            # the running rows, and as many finished ones as fill the last block
            chosen = running.int().argsort(descending=True, stable=True)[:size].sort().values
            active, token, running = active[chosen], token[chosen], running[chosen]
            decoder.keep(chosen)
        logits = decoder.step(token[:, 0])
    ids, log_probs, mask = (part.t().contiguous() for part in (ids, log_probs, mask))
    lengths = mask.sum(1).long()
    stopped = ids.gather(1, (lengths - 1)[:, None])[:, 0] == eos_id
    width = int(lengths.max())
    return RolloutBatch(
        prompt_ids,
        prompt_mask,
        ids[:, :width],
        mask[:, :width],
        log_probs[:, :width],
        stopped,
        None if memory is None else sampler_log_probs.t().contiguous()[:, :width],
    )


def tempered(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """log softmax(logits / temperature) over the last dimension."""
    return torch.log_softmax(logits if temperature == 1 else logits / temperature, -1)


def draw(
    model, tokenizer, prompts: list[Prompt], n: int, settings: Evaluation, seed: tuple
) -> list[tuple[str, int, float, bool]]:
    """The local engine: `n` responses to every prompt, a prompt's together, as rows (text, tokens,
    log_prob, stopped).

    `settings` has temperature, max_tokens and batch, the sequences decoded at once. Any engine is
    such a function of (prompts, n, settings, seed); the same arguments give the same rows.
    """
    from common.seeds import generator

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
                max_tokens=settings.max_tokens,
                eos_id=tokenizer.eos_token_id,
                generator=generator(*seed, start, drawn),
            )
            lengths, log_probs = batch.mask.sum(1).int().tolist(), batch.log_probs.sum(1).tolist()
            tokens = zip(batch.response_ids.tolist(), lengths, strict=True)
            texts = tokenizer.batch_decode(
                [row[:length] for row, length in tokens], skip_special_tokens=True
            )
            found = zip(texts, lengths, log_probs, batch.stopped.tolist(), strict=True)
            for i, (text, length, log_prob, stopped) in enumerate(found):
                row = (text, length, round(log_prob, 4), stopped)
                rows[start + i // batch.group_size].append(row)
    return [row for group in rows for row in group]
