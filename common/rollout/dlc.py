"""Distribution-level calibration (over-sharpening sec 3.2, Algorithm 1): a memory network that
lowers the chance of what was sampled often.

    f~(q, o) = f_theta(q, o) - mu f_phi(q, o),    pi_sample(o | q) = softmax(f~ / temperature)

token by token. After each training step phi takes one cross-entropy step on the sampled
trajectories. The paper prints mu = 0.5 for its toy only and neither phi's start, size, learning
rate nor whether the policy gradient is corrected for the other sampling distribution; these are
arguments, and our choices are in the method files. Both models decode in lockstep, each with a
cache of its own.
"""

import copy
from collections.abc import Callable

import torch

from common.errors import require
from common.models.policy import log_probs
from common.rollout.decoder import make_decoder
from common.types import RolloutBatch


class MemoryNetwork:
    """phi with its optimiser. `start`: "random" weights under a head of zeros (nothing is
    remembered yet, f_phi = 0) or the "policy" as it is at the first step, which flattens the first
    samples to softmax((1 - mu) f_theta). `shrink` divides the width of a random network: 2 leaves
    about a quarter of the parameters."""

    def __init__(self, policy, *, mu: float, lr: float, start: str, shrink: int, seed: int):
        require(mu >= 0, "method.sampler.mu", mu, "must be >= 0")
        require(lr > 0, "method.sampler.lr", lr, "must be above 0")
        require(start in ("random", "policy"), "method.sampler.start", start, "random or policy")
        self.mu = mu
        self.model = copy.deepcopy(policy) if start == "policy" else _random(policy, shrink, seed)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.0)

    def learn(self, batch: RolloutBatch, micro_batch: int) -> float:
        """One cross-entropy step on all response tokens; returns the mean loss a token, nats."""
        self.optimizer.zero_grad()
        tokens, total = batch.mask.sum(), 0.0
        per_micro = max(1, micro_batch // batch.group_size)
        for start in range(0, len(batch.prompt_ids), per_micro):
            part = batch.prompts(start, start + per_micro)
            log_prob, _ = log_probs(self.model, part, temperature=1.0)
            loss = -torch.where(part.mask > 0, log_prob, 0.0).sum() / tokens
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total

    def state_dict(self) -> dict:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


class CalibratedDecoder:
    """A decoder (see rollout/decoder.py) of f_theta - mu f_phi; `policy` holds the last f_theta."""

    policy: torch.Tensor

    def __init__(self, policy, memory: MemoryNetwork, max_tokens: int, dtype=None):
        self.mu = memory.mu
        self.decoders = [make_decoder(m, max_tokens, dtype) for m in (policy, memory.model)]

    def prefill(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self._calibrated(lambda decoder: decoder.prefill(ids, mask))

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        return self._calibrated(lambda decoder: decoder.step(tokens))

    def repeat(self, times: int) -> None:
        self.policy = self.policy.repeat_interleave(times, 0)
        for decoder in self.decoders:
            decoder.repeat(times)

    def keep(self, rows: torch.Tensor) -> None:
        for decoder in self.decoders:
            decoder.keep(rows)

    def _calibrated(self, logits: Callable) -> torch.Tensor:
        self.policy, memory = (logits(decoder) for decoder in self.decoders)
        return self.policy - self.mu * memory


def importance(batch: RolloutBatch, cap: float | None) -> torch.Tensor | None:
    """min(pi_theta / pi_sample, cap) a token, (B, T), of the policy that sampled; None where cap is
    None (no correction, as Algorithm 1 is printed) or the policy itself sampled."""
    if cap is None or batch.sampler_log_probs is None:
        return None
    return (batch.log_probs - batch.sampler_log_probs).exp().clamp(max=cap)


def _random(policy, shrink: int, seed: int):
    """The policy's architecture, its width divided by `shrink`; fresh weights, the head zero."""
    config = copy.deepcopy(policy.config)
    config.tie_word_embeddings = False
    for size in ("hidden_size", "intermediate_size"):
        value = getattr(config, size)
        fits = shrink >= 1 and value % (shrink * config.num_attention_heads) == 0
        require(fits, "method.sampler.shrink", shrink, f"must divide {size}={value} by heads")
        setattr(config, size, value // shrink)
    if getattr(config, "head_dim", None) is not None:
        config.head_dim = config.hidden_size // config.num_attention_heads
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = type(policy)(config)
    torch.nn.init.zeros_(model.get_output_embeddings().weight)
    return model.to(policy.device, policy.dtype)
