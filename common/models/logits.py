"""Log-probability and entropy from logits, without copies of a large vocabulary's logits."""

import torch
from torch.autograd.function import once_differentiable

CHUNK = 2**21  # logits processed at once: 8 MiB in float32


def log_prob_and_entropy(
    logits: torch.Tensor, ids: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-probability of `ids` and the entropy of softmax(logits / temperature).

        log_p = log_softmax(logits / temperature)
        log_prob = log_p[id];  entropy = -sum_v exp(log_p_v) log_p_v

    logits (..., V) of any float type, ids (...); returns two (...) tensors in float32, or float64
    for float64 logits, both with gradient. A chunk's softmax is computed again for the gradient,
    the only other tensor of the logits' size. A slice that is not contiguous, such as
    logits[:, :-1], is copied first. Second derivatives are not supported, nor logits of -inf, whose
    entropy is nan.
    """
    made = _LogProbAndEntropy.apply(
        logits.reshape(-1, logits.shape[-1]), ids.flatten(), temperature
    )
    log_prob, entropy = (one.view(ids.shape) for one in made)
    return log_prob, entropy


class _LogProbAndEntropy(torch.autograd.Function):
    """The autograd function of `log_prob_and_entropy`, on (N, V) logits and (N,) ids.

    d log_prob / d logit_v = (1[v = id] - p_v) / temperature
    d entropy  / d logit_v = -p_v (log_p_v + entropy) / temperature
    """

    @staticmethod
    def forward(ctx, logits, ids, temperature):
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        log_prob, entropy = (
            torch.empty(ids.shape, dtype=dtype, device=ids.device) for _ in range(2)
        )
        for rows in _chunks(logits):
            log_p = torch.log_softmax(logits[rows].to(dtype) / temperature, -1)
            log_prob[rows] = log_p.gather(1, ids[rows, None])[:, 0]
            entropy[rows] = -log_p.exp().mul_(log_p).sum(1)
        ctx.save_for_backward(logits, ids, entropy)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)  # an output that is not used costs nothing
        return log_prob, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_log_prob, grad_entropy):
        logits, ids, entropy = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        for rows in _chunks(logits):
            log_p = torch.log_softmax(logits[rows].to(entropy.dtype) / ctx.temperature, -1)
            p = log_p.exp()
            slope = torch.zeros_like(entropy[rows, None])
            if grad_log_prob is not None:
                slope = grad_log_prob[rows, None] / ctx.temperature
            if grad_entropy is None:
                out = p.mul_(-slope)
            else:
                weight = grad_entropy[rows, None] / ctx.temperature
                out = log_p.add_(entropy[rows, None]).mul_(weight).add_(slope).mul_(p).neg_()
            gradient[rows] = out.scatter_add_(1, ids[rows, None], slope)
        return gradient, None, None


def _chunks(logits: torch.Tensor):
    size = max(1, CHUNK // logits.shape[1])
    return [slice(start, start + size) for start in range(0, len(logits), size)]
