"""Distribution-level calibration (over-sharpening sec 3.2, Algorithm 1): a memory network that
lowers the probability of responses that were sampled often.

    f~(q, o) = f_theta(q, o) - mu f_phi(q, o),    pi_sample(o | q) = softmax(f~ / temperature)

token by token. After each training step phi takes one cross-entropy step on the sampled
trajectories. The paper prints mu = 0.5, for its toy (Fig. 5) and for Qwen3-8B with Qwen3-1.7B as
phi (sec 4.2). It prints neither phi's learning rate, nor whether the policy gradient is corrected
for the other sampling distribution, nor whether Qwen3-1.7B starts from its published weights: these
are arguments, and our choices are in the method files.
"""

import copy

import torch

from common.config.schema import MemorySettings
from common.errors import require
from common.models.load import load_checkpoint
from common.models.policy import log_probs
from common.types import RolloutBatch


class MemoryNetwork:
    def __init__(self, model, *, mu: float, lr: float):
        self.mu, self.model = mu, model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)

    def learn(self, batch: RolloutBatch, micro_batch: int) -> float:
        """Take one cross-entropy step on all response tokens. Return the mean nats per token."""
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


def memory_network(sampler: MemorySettings, policy, tokenizer, seed: int) -> MemoryNetwork:
    """Return the memory network that a method describes, on the policy's device.

    `start` says what phi is at first: "random" weights under a head of zeros (f_phi = 0), the
    "policy" at the first step, which flattens the first samples to softmax((1 - mu) f_theta), or a
    "checkpoint", a separate model with the policy's vocabulary. `shrink` divides the width of a
    random network. Raises UserError if the checkpoint cannot be loaded or has another vocabulary.
    """
    if sampler.path is not None:
        network, own = load_checkpoint(sampler.path, str(policy.device), key="method.sampler.path")
        check_vocabulary(sampler.path, (network.config, own), (policy.config, tokenizer))
    elif sampler.start == "policy":
        network = copy.deepcopy(policy)
    else:
        network = _random(policy, sampler.shrink, seed)
    return MemoryNetwork(network, mu=sampler.mu, lr=sampler.lr)


def check_vocabulary(path: str, memory: tuple, policy: tuple) -> None:
    """Raise UserError if the memory network at `path` has other tokens than the policy, whose
    logits are subtracted token by token. `memory` and `policy` are (configuration, tokenizer)."""
    remedy = "; take a checkpoint of the policy's family, with its tokenizer"
    counts = [config.vocab_size for config, _ in (memory, policy)]
    said = f"it has logits for {counts[0]} tokens, the policy for {counts[1]}"
    require(counts[0] == counts[1], "method.sampler.path", path, said + remedy)
    own, theirs = (tokenizer.get_vocab() for _, tokenizer in (memory, policy))
    other = sorted(word for word in own.keys() | theirs.keys() if own.get(word) != theirs.get(word))
    said = f"{len(other)} tokens of its tokenizer are not the policy's, such as {other[:1]}"
    require(not other, "method.sampler.path", path, said + remedy)


def importance(batch: RolloutBatch, cap: float | None) -> torch.Tensor | None:
    """Return min(pi_theta / pi_sample, cap) per token, (B, T), where pi_theta is the policy at the
    time of sampling. None if cap is None (as Algorithm 1 is printed) or if the policy itself
    sampled."""
    if cap is None or batch.sampler_log_probs is None:
        return None
    return (batch.log_probs - batch.sampler_log_probs).exp().clamp(max=cap)


def _random(policy, shrink: int, seed: int):
    config = copy.deepcopy(policy.config)
    config.tie_word_embeddings = False
    for size, parts in (("hidden_size", config.num_attention_heads), ("intermediate_size", 1)):
        value = getattr(config, size)
        fits = value % (shrink * parts) == 0
        by = f" / {parts} heads" if parts > 1 else ""
        require(fits, "method.sampler.shrink", shrink, f"must divide {size}={value}{by}")
        setattr(config, size, value // shrink)
    if getattr(config, "head_dim", None) is not None:
        config.head_dim = config.hidden_size // config.num_attention_heads
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = type(policy)(config)
    torch.nn.init.zeros_(model.get_output_embeddings().weight)
    return model.to(policy.device, policy.dtype)
