"""Teacher forcing: a model's log-probabilities and entropies of given responses, token by token.

The softmax is over the whole vocabulary, in float32. To bound memory, a batch is read a few tokens
at a time: the keys and values of tokens already read are kept, their logits are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # other modules read the bounds below without torch
    import torch

TOKENS = 2**14  # in a batch, padding included: their keys and values are held
LOGITS = 2**28  # logits held at once: 1 GiB in float32

Pair = tuple[Sequence[int], Sequence[int]]  # token ids of a prompt and of its response


def scores(
    model,
    pairs: list[Pair],
    *,
    temperature: float = 1.0,
    also: float | None = None,
    tokens: int = TOKENS,
    logits: int = LOGITS,
) -> list[tuple[torch.Tensor, ...]]:
    """Return (log_prob, entropy), in nats, of each response's tokens, (T_i,) float32 on the CPU;
    with `also` a third, the entropy at that temperature.

        log_prob_t = log p(y_t | prompt, y_<t),  entropy_t = -sum_v p(v | ..) log p(v | ..),
        p = softmax(logits / temperature)

    The bounds `tokens` and `logits` change the values only by rounding. Raises ValueError for an
    empty prompt or response.
    """
    import torch

    if not all(prompt and response for prompt, response in pairs):
        raise ValueError("a prompt or a response has no token")
    found: list = [None] * len(pairs)
    with torch.no_grad():
        for batch in batches([len(a) + len(b) for a, b in pairs], tokens):
            whole = [[*pairs[i][0], *pairs[i][1]] for i in batch]
            first = min(len(pairs[i][0]) for i in batch) - 1
            values = _of_sequences(model, whole, temperature, also, logits, first)
            for row, i in enumerate(batch):
                # the prompt's last token predicts the first of the response
                start = len(pairs[i][0]) - 1 - first
                own = slice(start, start + len(pairs[i][1]))
                found[i] = tuple(one[row, own] for one in values)
    return found


def batches(lengths: list[int], tokens: int) -> list[list[int]]:
    """Return the sequences' indices in batches, ordered by length; a batch has at most `tokens`
    tokens when padded, or a single sequence."""
    found: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if found and (len(found[-1]) + 1) * lengths[i] <= tokens:
            found[-1].append(i)
        else:
            found.append([i])
    return found


def _of_sequences(
    model, whole: list[list[int]], temperature: float, also: float | None, logits: int, first: int
) -> list[torch.Tensor]:
    """Return the values of each token after position `first`, (B, L - 1 - first); no softmax is
    computed for earlier tokens. Padding is on the right, where no token of a sequence sees it."""
    import torch

    from common.models.hf import DynamicCache
    from common.models.logits import log_prob_and_entropy

    length = max(map(len, whole))
    ids = torch.tensor([[*row, *[0] * (length - len(row))] for row in whole]).to(model.device)
    width = max(1, logits // (len(whole) * model.config.vocab_size))
    cache, parts = DynamicCache(config=model.config), []
    for start in range(0, length - 1, width):
        read = ids[:, start : min(start + width, length - 1)]
        end = start + read.shape[1]
        own = max(1, end - max(start, first))  # 0 would mean all
        out = model(input_ids=read, past_key_values=cache, use_cache=True, logits_to_keep=own)
        if end > first:
            wanted = ids[:, end - own + 1 : end + 1]
            values = list(log_prob_and_entropy(out.logits, wanted, temperature))
            if also is not None:
                values.append(log_prob_and_entropy(out.logits, wanted, also)[1])
            parts.append([one.cpu() for one in values])
    return [torch.cat(some, 1) for some in zip(*parts, strict=True)]
