"""The sampler, which draws the responses of a training step: from the policy or, with a memory
network (`method.sampler`, DLC), from the policy calibrated by it."""

from collections.abc import Callable
from dataclasses import replace

import torch

from common.config.schema import MemorySettings, Sampling
from common.models.policy import log_probs_in_parts
from common.rollout.dlc import importance, memory_network
from common.rollout.local import encode, ends_of, generate
from common.types import Prompt, RolloutBatch


class Sampler:
    """Draws from `policy` and keeps the memory network that `settings` describe, if there is one.

    passes  model -> function from a batch to log-probabilities, as in training
    again   whether they differ from sampling's by more than rounding in float32

    Raises UserError as `memory_network` does.
    """

    def __init__(
        self,
        policy,
        tokenizer,
        sampling: Sampling,
        settings: MemorySettings | None,
        *,
        micro_batch: int,
        seed: int,
        passes: Callable,
        again: bool,
    ):
        self.policy, self.tokenizer, self.sampling = policy, tokenizer, sampling
        self.settings, self.micro_batch, self.again = settings, micro_batch, again
        self.log_probs = passes(policy)  # the trainer uses them too
        self.memory = None
        if settings is not None:
            self.memory = memory_network(settings, policy, tokenizer, seed)

    def draw(
        self, prompts: list[Prompt], generator: torch.Generator
    ) -> tuple[RolloutBatch, float | None]:
        """Draw `sampling.group_size` responses to each prompt.

        If sampling or training has lower precision (`sampling.dtype`, `optim.dtype`),
        log-probabilities are computed again as in training, so that ratios begin at 1, as in verl.
        The second value is then the mean |difference| of the two per token, else None.
        """
        settings = self.sampling
        batch = generate(
            self.policy,
            *encode(self.tokenizer, [prompt.text for prompt in prompts], self.policy.device),
            group_size=settings.group_size,
            temperature=settings.temperature,
            reported=settings.reported,
            max_tokens=settings.max_tokens,
            eos_id=self.tokenizer.eos_token_id,
            more_ends=ends_of(self.policy, self.tokenizer),
            generator=generator,
            memory=self.memory,
            dtype=torch.bfloat16 if settings.dtype == "bfloat16" else None,
        )
        if not self.again:
            return batch, None
        again = log_probs_in_parts(self.log_probs, batch, self.micro_batch)
        again = torch.where(batch.mask > 0, again, 0.0)
        gap = (again - batch.log_probs).abs().sum() / batch.mask.sum()
        return replace(batch, log_probs=again), gap.item()

    def corrected(self, weights: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        """Return the weights of the batch's responses, (B, 1), or (B, T) if they are corrected for
        a memory network that took part in sampling."""
        cap = None if self.settings is None else self.settings.importance_cap
        ratio = importance(batch, cap)
        return weights if ratio is None else weights * ratio

    def learn(self, kept: RolloutBatch, drawn: RolloutBatch) -> dict[str, float]:
        """Let the memory network learn, after a step's updates, from the responses trained on
        (`kept`) or from all `drawn`. Return what is logged of it."""
        if self.memory is None:
            return {}
        learned = drawn if self.settings.remember == "all" else kept
        return {"memory_loss": self.memory.learn(learned, self.micro_batch)}

    def state_dict(self) -> dict:
        return {} if self.memory is None else self.memory.state_dict()

    def load_state_dict(self, state: dict) -> None:
        if self.memory is not None:
            self.memory.load_state_dict(state)
