"""How many rows (responses) of a rollout fit into memory, and how a batch is split accordingly."""

import torch

from common.errors import UserError

SHARE = 0.8  # of the free memory; the rest is for uncounted tensors and gaps between blocks
LOGITS = 6  # float32 tensors of (rows, vocabulary) that drawing a token holds at once


def free_bytes(device: torch.device) -> int:
    """Return the available bytes; on a GPU also what torch holds without using it."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    import psutil

    return psutil.virtual_memory().available


def cache_bytes(model, tokens: int, dtype: torch.dtype) -> int:
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return 2 * config.num_hidden_layers * kv_heads * head_dim * tokens * dtype.itemsize


def row_bytes(model, tokens: int, dtype: torch.dtype) -> int:
    """Return the bytes of one row while it is decoded, logits and tensors made of them included."""
    return (
        cache_bytes(model, tokens, dtype) + 4 * LOGITS * model.config.get_text_config().vocab_size
    )


def parts(prompts: int, group: int, rows: int) -> list[tuple[slice, slice]]:
    """Return the (prompts, responses of each) to decode together, at most `rows` at once, in row
    order: whole groups if one fits, else pieces of a prompt's group."""
    together, piece = max(1, rows // group), min(rows, group)
    return [
        (slice(first, min(first + together, prompts)), slice(at, min(at + piece, group)))
        for first in range(0, prompts, together)
        for at in range(0, group, piece)
    ]


def rows_that_fit(
    models: list,
    prompt_tokens: int,
    max_tokens: int,
    dtype: torch.dtype,
    key: str,
    sharing: int = 1,
) -> int:
    """Return how many rows `models` can decode at once in lockstep, where `sharing` rows have one
    copy of their prompt. Raises UserError, which names `key`, if not even one row fits."""
    device = next(models[0].parameters()).device
    free = SHARE * free_bytes(device)
    prompt = sum(cache_bytes(model, prompt_tokens, dtype) for model in models)
    own = sum(row_bytes(model, max_tokens, dtype) for model in models)
    if free < 2 * (prompt + own):  # the row, and the prompt that it was repeated from
        raise UserError(
            f"{key}={max_tokens}: one response after a prompt of {prompt_tokens} tokens needs "
            f"{2 * (prompt + own) / 2**30:.2g} GiB, and {free / 2**30:.2g} GiB of the "
            f"{device.type}'s memory are free; lower it, take a smaller model or free more "
            "memory"
        )
    return int((free - prompt - own) / (prompt / sharing + own))
