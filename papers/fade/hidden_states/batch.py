"""The response tokens of a model, with the hidden states that its output head reads."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tokens:
    """The N response tokens of a batch: A = r - rbar of the response, the state h (N, d) that the
    output head reads, the token y that follows, and whether the response is correct."""

    A: np.ndarray
    h: np.ndarray
    y: np.ndarray
    correct: np.ndarray


def tokens(
    policy,
    tokenizer,
    prompts,
    verify,
    *,
    group_size: int,
    max_tokens: int,
    seed: int,
    responses: int,
) -> Tokens:
    """Sample `group_size` responses to each prompt and return their tokens. The model reads
    `responses` responses at once to compute the hidden states."""
    import torch

    from common.backends.dynamic import judged, rewards
    from common.rollout.local import encode, generate
    from common.seeds import generator

    ids, mask = encode(tokenizer, [prompt.text for prompt in prompts], policy.device)
    batch = generate(
        policy,
        ids,
        mask,
        group_size=group_size,
        temperature=1.0,
        max_tokens=max_tokens,
        eos_id=tokenizer.eos_token_id,
        generator=generator(seed, "hidden states"),
    )
    reward = rewards(judged(batch, prompts, tokenizer, verify), group_size, 1.0, 0.0)
    A = (reward - reward.mean(1, keepdim=True)).flatten()
    prompt_ids, prompt_mask = (t.repeat_interleave(group_size, 0) for t in (ids, mask))
    states = []
    for rows in torch.arange(len(batch.mask)).split(responses):
        attention = torch.cat([prompt_mask[rows], batch.mask[rows].to(mask.dtype)], 1)
        with torch.no_grad():
            h = policy.model(
                input_ids=torch.cat([prompt_ids[rows], batch.response_ids[rows]], 1),
                attention_mask=attention,
                position_ids=(attention.cumsum(1) - 1).clamp(min=0),
            ).last_hidden_state[:, ids.shape[1] - 1 : -1]
        states.append(h[batch.mask[rows] > 0].cpu().numpy())
    real = (batch.mask > 0).cpu()
    each = real.sum(1)
    A, correct = (t.repeat_interleave(each) for t in (A, reward.flatten() == 1))
    y = batch.response_ids.cpu()[real].numpy()
    return Tokens(A.double().numpy(), np.concatenate(states), y, correct.numpy())


def errors(head, found: Tokens, rows: int) -> Iterator[np.ndarray]:
    """Yield v = e_y - pi of the tokens, in float32 blocks (rows, V)."""
    import torch

    for start in range(0, len(found.y), rows):
        part = slice(start, start + rows)
        with torch.no_grad():
            h = torch.from_numpy(found.h[part]).to(head.weight.device)
            v = -torch.softmax(head(h), -1).cpu().numpy()
        v[np.arange(len(v)), found.y[part]] += 1
        yield v
