"""The samplers, which draw the responses of a training step: from the current policy, from its
weights some updates ago (`sampling.lag`), or from the policy with a memory network
(`method.sampler`, DLC).

`sampler` makes the one that a configuration asks for. The training loop calls all of them alike;
methods that the current policy does not need do nothing in `Sampler`.
"""

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import torch

from common.config.schema import MemorySettings, Sampling
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
    passes: Callable,
    again: bool,
) -> "Sampler":
    """Return the sampler of a configuration.

    passes  model -> function from a batch to log-probabilities, as in training
    again   whether they differ from those of sampling by more than rounding in float32

    Raises UserError as `memory_network` does.
    """
    given = (policy, tokenizer, sampling, micro_batch, passes, again)
    if memory is not None:
        network = memory_network(memory, policy, tokenizer, seed)
        return WithMemory(*given, network=network, settings=memory)
    return Lagged(*given) if sampling.lag else Sampler(*given)


class Sampler:
    """The sampler that draws from the current policy."""

    memory: MemoryNetwork | None = None

    def __init__(
        self, policy, tokenizer, sampling: Sampling, micro_batch: int, passes: Callable, again: bool
    ):
        self.policy, self.tokenizer = policy, tokenizer
        self.sampling, self.micro_batch, self.again = sampling, micro_batch, again
        self.log_probs = passes(policy)  # the trainer uses them too

    def model(self):
        """Return the model that draws the next rollout, and its passes."""
        return self.policy, self.log_probs

    def draw(
        self, prompts: list[Prompt], generator: torch.Generator
    ) -> tuple[RolloutBatch, float | None]:
        """Draw `sampling.group_size` responses to each prompt.

        If the products of sampling or training are in lower precision (`sampling.dtype`,
        `optim.dtype`), log-probabilities are computed again as in training, so that ratios begin at
        1 (verl does the same). The second value is then the mean |difference| of the two per token,
        else None.
        """
        (model, log_probs), settings = self.model(), self.sampling
        lower = torch.bfloat16 if settings.dtype == "bfloat16" else None
        texts = [prompt.text for prompt in prompts]
        batch = generate(
            model,
            *encode(self.tokenizer, texts, self.policy.device),
            group_size=settings.group_size,
            temperature=settings.temperature,
            reported=settings.reported,
            max_tokens=settings.max_tokens,
            eos_id=self.tokenizer.eos_token_id,
            more_ends=ends_of(model, self.tokenizer),
            generator=generator,
            memory=self.memory,
            dtype=lower,
        )
        if not self.again:
            return batch, None
        again = log_probs_in_parts(log_probs, batch, self.micro_batch)
        again = torch.where(batch.mask > 0, again, 0.0)
        gap = (again - batch.log_probs).abs().sum() / batch.mask.sum()
        return replace(batch, log_probs=again), gap.item()

    def corrected(self, weights: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        """Return the weights of the batch's responses, (B, 1), or (B, T) if they are corrected for
        a sampler that is not the policy."""
        return weights

    def before_update(self) -> None:
        """Store what is needed of the policy before an optimiser step changes it."""

    def learn(self, kept: RolloutBatch, drawn: RolloutBatch) -> dict[str, float]:
        """Learn, after a step's updates, from the responses that were trained on (`kept`) or from
        all that were drawn (`drawn`). Return what is logged of it."""
        return {}

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


class Lagged(Sampler):
    """The sampler that draws from the policy of exactly `sampling.lag` optimiser updates ago. It
    has the effect of asynchronous training on the samples, in one process (FADE Sec. 11.1).

    The paper's samplers generate with the newest weights that reached them while the trainer goes
    on. As long as there were fewer than `lag` updates, the weights are the ones that training
    started from. The stored log-probabilities are under the weights that sampled, so the loss's
    ratio is pi_theta / pi_sampler. A rollout of several mini-batches ages further while it is
    trained on: the last one is lag + mini_batches - 1 updates old. Memory: lag + 1 copies of the
    model.
    """

    def __init__(self, *given):
        super().__init__(*given)
        *_, passes, _ = given
        self.old = copy.deepcopy(self.policy)
        self.of_old = passes(self.old)
        self.past: deque[dict[str, torch.Tensor]] = deque(maxlen=self.sampling.lag)

    def model(self):
        if not self.past:
            return super().model()  # not updated yet
        self.old.load_state_dict(self.past[0])
        return self.old, self.of_old

    def before_update(self) -> None:
        held = self.policy.state_dict().items()
        self.past.append({name: value.detach().clone() for name, value in held})

    def state_dict(self) -> dict:
        return {"past": list(self.past)}

    def load_state_dict(self, state: dict) -> None:
        self.past.extend(state["past"])


class WithMemory(Sampler):
    """The policy with DLC's memory network, which learns the sampled responses (rollout/dlc.py)."""

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
