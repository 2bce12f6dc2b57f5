"""What draws the responses of a step: the policy as it is, its weights of some updates ago
(`sampling.lag`), or the policy beside a memory network (`method.sampler`, DLC).

`sampler` makes the one that a configuration asks for. The loop calls all of them alike; what the
policy as it is has no use for does nothing there.
"""

import copy
from collections import deque
from dataclasses import replace

import torch

from common.config.schema import Sampler as MemorySettings
from common.config.schema import Sampling
from common.models.policy import log_probs_in_parts
from common.rollout.dlc import MemoryNetwork, importance, memory_network
from common.rollout.local import encode, ends_of, generate
from common.types import Prompt, RolloutBatch


def sampler(
    policy,
    tokenizer,
    sampling: Sampling,
    memory: MemorySettings | None,
    *,
    micro_batch: int,
    seed: int,
) -> "Sampler":
    """The sampler of a configuration. Raises UserError as `memory_network` does."""
    given = (policy, tokenizer, sampling, micro_batch)
    if memory is not None:
        network = memory_network(memory, policy, tokenizer, seed)
        return WithMemory(*given, network=network, settings=memory)
    return Lagged(*given) if sampling.lag else Sampler(*given)


class Sampler:
    """The policy as it is."""

    memory: MemoryNetwork | None = None

    def __init__(self, policy, tokenizer, sampling: Sampling, micro_batch: int):
        self.policy, self.tokenizer = policy, tokenizer
        self.sampling, self.micro_batch = sampling, micro_batch

    def model(self):
        """The model that the next rollout is drawn with."""
        return self.policy

    def draw(
        self, prompts: list[Prompt], generator: torch.Generator
    ) -> tuple[RolloutBatch, float | None]:
        """`sampling.group_size` responses to each prompt.

        Where a copy of the weights in lower precision draws them (`sampling.dtype`), their
        log-probabilities are computed again in float32, so that ratios begin at 1 (verl does the
        same); the second value is then how far the two are apart, mean |difference| a token.
        """
        model, settings = self.model(), self.sampling
        lower = torch.bfloat16 if settings.dtype == "bfloat16" else None
        texts = [prompt.text for prompt in prompts]
        batch = generate(
            model,
            *encode(self.tokenizer, texts, self.policy.device),
            group_size=settings.group_size,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            eos_id=self.tokenizer.eos_token_id,
            more_ends=ends_of(model, self.tokenizer),
            generator=generator,
            memory=self.memory,
            dtype=lower,
        )
        if lower is None:
            return batch, None
        again = log_probs_in_parts(model, batch, settings.temperature, self.micro_batch)
        again = torch.where(batch.mask > 0, again, 0.0)
        gap = (again - batch.log_probs).abs().sum() / batch.mask.sum()
        return replace(batch, log_probs=again), gap.item()

    def corrected(self, weights: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        """The weights of the batch's responses, (B, 1), corrected for what drew them, (B, T)."""
        return weights

    def before_update(self) -> None:
        """What has to be kept of the policy before an optimiser step changes it."""

    def learn(self, kept: RolloutBatch, drawn: RolloutBatch) -> dict[str, float]:
        """After a step's updates: what the sampler learns of the responses that were trained on, or
        of all that were drawn, and what is logged of it."""
        return {}

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


class Lagged(Sampler):
    """The policy of exactly `sampling.lag` optimiser updates ago: what asynchronous training does
    to the samples, in one process (FADE Sec. 11.1).

    The paper's samplers generate with the newest weights that reached them while the trainer goes
    on. Where there were fewer updates, these are the weights that training started from. The stored
    log-probabilities are those of the weights that drew, so the loss's ratio is
    pi_theta / pi_sampler. A rollout of several mini-batches ages further while it is trained on:
    the last is lag + mini_batches - 1 updates old. Memory: lag + 1 copies of the model.
    """

    def __init__(self, *given):
        super().__init__(*given)
        self.old = copy.deepcopy(self.policy)
        self.past: deque[dict[str, torch.Tensor]] = deque(maxlen=self.sampling.lag)

    def model(self):
        if not self.past:
            return self.policy  # not updated yet
        self.old.load_state_dict(self.past[0])
        return self.old

    def before_update(self) -> None:
        held = self.policy.state_dict().items()
        self.past.append({name: value.detach().clone() for name, value in held})

    def state_dict(self) -> dict:
        return {"past": list(self.past)}

    def load_state_dict(self, state: dict) -> None:
        self.past.extend(state["past"])


class WithMemory(Sampler):
    """The policy beside DLC's memory network, which learns what was sampled (rollout/dlc.py)."""

    def __init__(self, *given, network: MemoryNetwork, settings: MemorySettings):
        super().__init__(*given)
        self.memory, self.settings = network, settings

    def corrected(self, weights: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        ratio = importance(batch, self.settings.importance_cap)
        return weights if ratio is None else weights * ratio

    def learn(self, kept: RolloutBatch, drawn: RolloutBatch) -> dict[str, float]:
        learned = drawn if self.settings.remember == "all" else kept
        return {"memory_loss": self.memory.learn(learned, self.micro_batch)}

    def state_dict(self) -> dict:
        return self.memory.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.memory.load_state_dict(state)
