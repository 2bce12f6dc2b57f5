"""The policy as the trainer sees it: a causal LM's log-probabilities and entropies of given
responses."""

import torch

from common.types import RolloutBatch


def log_probs(model, batch: RolloutBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each response token and entropy of its distribution, (B, T) each, float32.

    Both are of softmax(logits / temperature), the distribution that is sampled from. The prompt is
    run once and its keys and values are shared, with gradient, by the G responses of the group.
    Values on padding are meaningless: mask them.
    """
    from transformers import DynamicCache

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
    ).logits.repeat_interleave(group, 0)
    if width == 1:
        logits = first
    else:
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
        logits = torch.cat([first, rest], 1)
    log_p = torch.log_softmax(logits.float() / temperature, -1)
    chosen = log_p.gather(-1, batch.response_ids[..., None])[..., 0]
    return chosen, -(log_p.exp() * log_p).sum(-1)
