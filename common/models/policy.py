"""The policy as the trainer uses it: a causal LM's log-probabilities and entropies of responses."""

from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint

from common.models.llama import (
    attend,
    block,
    causal,
    causal_after_padding,
    is_plain_llama,
    norm,
    own_weights,
    signed,
)
from common.models.logits import log_prob_and_entropy
from common.types import RolloutBatch


def log_probs(
    model,
    batch: RolloutBatch,
    temperature: float,
    dtype: torch.dtype = torch.float32,
    rows: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each response token's log-probability and entropy, (B, T) each, in float32.

    Both belong to softmax(logits / temperature). The prompt is run once, and the G responses of the
    group share its keys and values, with gradient. Values on padding are meaningless: mask them.

    dtype  of the matrix products. With bfloat16 the weights, their gradients, the states between
           the layers and, in the Llama family, the product with the head stay in float32
    rows   where in response_ids[:, 1:].flatten() the tokens to compute are, in increasing order; by
           default all real ones
    """
    forward = _packed_logits if is_plain_llama(model) else _padded_logits
    start, later = batch.response_ids[:, 0], batch.response_ids[:, 1:]
    lower = dict(dtype=torch.bfloat16, enabled=dtype == torch.bfloat16, cache_enabled=False)
    with torch.autocast(model.device.type, **lower):
        first, rest, rows = forward(model, batch, rows)  # (P, V), (N, V), (N,)
        first = first.repeat_interleave(batch.group_size, 0)
        pairs = (
            log_prob_and_entropy(first, start, temperature),
            log_prob_and_entropy(rest, later.flatten()[rows], temperature),
        )
        log_prob, entropy = (
            torch.cat([one[:, None], _placed(others, rows, later)], 1)
            for one, others in zip(*pairs, strict=True)
        )
    return log_prob, entropy


def _placed(values: torch.Tensor, rows: torch.Tensor, later: torch.Tensor) -> torch.Tensor:
    flat = values.new_zeros(later.numel()).index_copy(0, rows, values)
    return flat.view(later.shape)


@torch.no_grad()
def log_probs_in_parts(policy: Callable, batch: RolloutBatch, micro_batch: int) -> torch.Tensor:
    """Return the log-probabilities that `policy` (models/recorded.py, `passes`) gives to the tokens
    of a batch, (B, T), without gradient, in passes of at most `micro_batch` responses or one
    group."""
    size = max(1, micro_batch // batch.group_size)
    starts = range(0, len(batch.prompt_ids), size)
    return torch.cat([policy(batch.prompts(i, i + size))[0].clone() for i in starts])


def _padded_logits(model, batch: RolloutBatch, _):
    """Run any causal LM through its own forward. Return the logits after each prompt (P, V), the
    logits that predict the responses' later tokens (N, V), and these tokens' positions in
    response_ids[:, 1:].flatten()."""
    from common.models.hf import DynamicCache

    group, width = batch.group_size, batch.response_ids.shape[1]
    positions = batch.prompt_mask.cumsum(1) - 1
    cache = DynamicCache(config=model.config)
    first = model(
        input_ids=batch.prompt_ids,
        attention_mask=batch.prompt_mask,
        position_ids=positions.clamp(min=0),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits[:, 0]
    rows = torch.arange(len(batch.response_ids) * (width - 1), device=first.device)
    if width == 1:
        return first, first[:0], rows
    cache.batch_repeat_interleave(group)
    lengths = positions[:, -1:].repeat_interleave(group, 0) + 1
    prompt_mask = batch.prompt_mask.repeat_interleave(group, 0)
    rest = model(
        input_ids=batch.response_ids[:, :-1],
        attention_mask=torch.cat([prompt_mask, batch.mask[:, :-1].to(prompt_mask.dtype)], 1),
        position_ids=lengths + torch.arange(width - 1, device=lengths.device),
        past_key_values=cache,
        use_cache=True,
    ).logits
    return first, rest.flatten(0, 1), rows


def _packed_logits(model, batch: RolloutBatch, rows: torch.Tensor | None):
    """Return what `_padded_logits` does, for the plain Llama family, from the modules' own weights.
    Padding takes part in attention only, so half-empty rectangles cost half."""
    config, body = model.config, model.model
    prompts, length = batch.prompt_ids.shape
    responses, width = batch.response_ids.shape[0], batch.response_ids.shape[1] - 1
    rows = (batch.mask[:, 1:] > 0).flatten().nonzero()[:, 0] if rows is None else rows
    positions = batch.prompt_mask.cumsum(1) - 1
    later = (positions[:, -1:] + 1).repeat_interleave(batch.group_size, 0)
    later = (later + torch.arange(width, device=later.device)).flatten()[rows]
    positions = torch.cat([positions.clamp(min=0).flatten(), later])
    ids = torch.cat([batch.prompt_ids.flatten(), batch.response_ids[:, :-1].flatten()[rows]])

    real = batch.prompt_mask.bool()
    prompt_mask = causal_after_padding(real)
    real = real.repeat_interleave(batch.group_size, 0)[:, None, None, :]
    shape = (responses, 1, width)
    seen = (real.expand(*shape, length), causal(width, ids.device).expand(*shape, width))
    response_mask = torch.cat(seen, -1)
    count = prompts * length

    def rectangle(packed):  # (N, heads, D) -> (B, heads, T, D), zero on padding
        flat = packed.new_zeros(responses * width, *packed.shape[1:])
        return flat.index_copy(0, rows, packed).unflatten(0, (responses, width)).transpose(1, 2)

    def attention(q, k, v):  # prompts attend to themselves, responses also to their prompt
        first = [t[:count].unflatten(0, (prompts, length)).transpose(1, 2) for t in (q, k, v)]
        h = attend(first[0], first[1], first[2], prompt_mask).transpose(1, 2).reshape(count, -1)
        if not width:
            return h
        shared = [t.repeat_interleave(batch.group_size, 0) for t in first[1:]]
        k, v = (
            torch.cat([old, rectangle(new[count:])], 2)
            for old, new in zip(shared, (k, v), strict=True)
        )
        rest = attend(rectangle(q[count:]), k, v, response_mask).transpose(1, 2)
        return torch.cat([h, rest.reshape(responses * width, -1)[rows]])

    x = body.embed_tokens(ids)
    cos, sin = (table[0, :, None] for table in body.rotary_emb(x[None], positions[None]))
    sin = signed(sin)
    again = model.is_gradient_checkpointing and torch.is_grad_enabled()
    for layer in body.layers:
        inputs = (x, own_weights(layer, config), cos, sin, attention)
        x = checkpoint(block, *inputs, use_reentrant=False) if again else block(*inputs)
    last = torch.arange(length - 1, count, length, device=ids.device)
    x = torch.cat([x[last], x[count:]])
    with torch.autocast(x.device.type, enabled=False):
        logits = model.lm_head(norm(x, body.norm.weight, config.rms_norm_eps))
    return logits[:prompts], logits[prompts:], rows
