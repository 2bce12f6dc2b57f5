"""Policy losses in milliseconds compared with verl's, and log_prob_and_entropy in MiB and
milliseconds compared with the plain formula."""

from functools import partial
from importlib import metadata
from itertools import accumulate
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

from bench import alternate, row
from common.losses.aggregate import token_mean
from common.losses.clip import cispo, dual_clip
from common.losses.covariance import clip_cov, kl_cov, top_covariance, weighted_ppo_clip
from common.losses.sequence import gspo
from common.models.logits import log_prob_and_entropy

ROWS, TOKENS = 512, 1024  # size of the mini-batch for the losses
LOGITS = (1024, 151_936)  # tokens x vocabulary (Qwen2.5)


def run(rounds: int = 5) -> list[dict]:
    return [*logits_rows(rounds), *loss_rows(rounds)]


# ---- logits


def plain(logits, ids, temperature):
    log_p = torch.log_softmax(logits.float() / temperature, -1)
    log_prob = log_p.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    return log_prob, -(log_p.exp() * log_p).sum(-1)


def forward_and_backward(name: str, logits, ids) -> None:
    out = {"ours": log_prob_and_entropy, "plain": plain}[name](logits, ids, 1.0)
    sum(values.sum() for values in out).backward()
    logits.grad = None


def make_logits(tokens: int, vocabulary: int, dtype: str = "float32"):
    torch.manual_seed(0)
    logits = torch.empty(tokens, vocabulary, dtype=getattr(torch, dtype)).normal_()
    return logits.requires_grad_(), torch.randint(vocabulary, (tokens,))


def logits_rows(rounds: int) -> list[dict]:
    tokens, vocabulary = LOGITS
    rows = []
    for dtype in ("float32", "bfloat16"):
        name = f"log-prob and entropy, {tokens} x {vocabulary} {dtype}, forward and backward"
        ours, peer = (peak_memory(side, tokens, vocabulary, dtype) for side in ("ours", "plain"))
        note = "peak with the logits themselves; peer: log_softmax, gather, -(p log p).sum"
        rows.append(row(name, ours, peer, "MiB", note))
        logits, ids = make_logits(tokens, vocabulary, dtype)
        sides = (partial(forward_and_backward, side, logits, ids) for side in ("ours", "plain"))
        ours, peer = alternate(*sides, rounds)
        rows.append(row(name, 1e3 * median(ours), 1e3 * median(peer), "ms", "the same"))
        del logits, ids
    return rows


def peak_memory(name: str, tokens: int, vocabulary: int, dtype: str = "float32") -> float:
    """Return the MiB of tensors at the peak, the logits included, from PyTorch's own record of its
    allocations. The process's resident size differs by a third from one run to the next."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        forward_and_backward(name, *make_logits(tokens, vocabulary, dtype))
    events = record.profiler.kineto_results.events()
    sizes = accumulate(event.nbytes() for event in events if event.name() == "[memory]")
    return max(sizes) / 2**20


# ---- losses


def loss_rows(rounds: int) -> list[dict]:

    torch.manual_seed(0)
    mask = (torch.arange(TOKENS) < torch.randint(1, TOKENS + 1, (ROWS, 1))).float()
    old = -torch.rand(ROWS, TOKENS) * 3
    log_prob = (old + 0.1 * torch.randn(ROWS, TOKENS)).requires_grad_()
    A = torch.randn(ROWS, 1)
    clip = dict(eps_low=0.2, eps_high=0.2)
    methods = {  # verl's name -> token weights, loss
        "vanilla": (None, partial(dual_clip, clip_ratio_c=3.0, **clip)),
        "gspo": (None, partial(gspo, **clip)),
        "cispo": (None, partial(cispo, **clip)),
        "clip_cov": (
            partial(clip_cov, ratio=2e-4, omega_low=1.0, omega_high=5.0, seed=0, **clip),
            partial(weighted_ppo_clip, **clip),
        ),
        "kl_cov": (partial(top_covariance, k=2e-4), partial(kl_cov, kl_coef=1.0)),
    }

    def ours(name: str) -> None:
        weigh, loss = methods[name]
        data = (log_prob, old, A, mask)
        if weigh is not None:
            loss = partial(loss, token_weights=weigh(log_prob.detach(), *data[1:]))
        per_token, clipped = loss(*data)
        torch.where(mask > 0, per_token * token_mean(mask), 0.0).sum().backward()
        (clipped * mask).sum().item()  # verl's functions return such a metric too
        log_prob.grad = None

    verl = verl_losses()

    def theirs(name: str) -> None:
        verl(name, old, log_prob, A.expand_as(mask), mask).backward()
        log_prob.grad = None

    rows = []
    for name in methods:
        label = f"loss {name}, {ROWS} x {TOKENS}, forward and backward"
        times = alternate(partial(ours, name), partial(theirs, name), rounds)
        ms, peer = (1e3 * median(side) for side in times)
        rows.append(row(label, ms, peer, "ms", f"peer: verl {metadata.version('verl')}"))
    return rows


def verl_losses():
    """Return f(name, old_log_prob, log_prob, advantages, mask) -> verl's scalar loss, token
    mean."""
    from verl.trainer.ppo.core_algos import get_policy_loss_fn  # absent where only logits are timed
    from verl.workers.config import FSDPActorConfig

    config = FSDPActorConfig(rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=0.2)

    def loss(name, old_log_prob, log_prob, advantages, mask):
        function = get_policy_loss_fn(name)
        return function(old_log_prob, log_prob, advantages, mask, "token-mean", config)[0]

    return loss
