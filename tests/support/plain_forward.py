"""The obvious way to score a response: one full, unpadded sequence at a time."""

import torch


def plain_scores(model, prompt: list[int], response: list[int], temperature: float = 1.0):
    """(log-probabilities, entropies) of the response's tokens, each (T,), with their gradients."""
    ids = torch.tensor([prompt + response])
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
    log_p = torch.log_softmax(logits / temperature, -1)
    chosen = log_p.gather(-1, torch.tensor(response)[:, None])[:, 0]
    return chosen, -(log_p.exp() * log_p).sum(-1)
