"""The types that pass through the training loop: Prompt -> RolloutBatch -> Verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch  # verifier workers import this file and start ten times as fast without

Outcome = Literal["correct", "wrong", "unparsed", "timeout", "error"]


@dataclass(frozen=True)
class Prompt:
    """One problem: its id, the text that the model continues, and the verifier's reference."""

    id: str
    text: str
    reference: str


@dataclass(frozen=True)
class Verdict:
    """The verdict of a verifier on one response. `reward` is 1.0 for correct and 0.0 otherwise; the
    loop maps it to the experiment's {R_w, R_c}. `parsed` is the answer in a canonical form, by
    which distinct answers are counted."""

    outcome: Outcome
    reward: float
    parsed: str | None = None
    reason: str = ""


# A verifier behind its pool of workers: (response, reference) pairs -> their verdicts, in order.
Verify = Callable[[list[tuple[str, str]]], list[Verdict]]


@dataclass(frozen=True)
class RolloutBatch:
    """P prompts x G responses, B = P*G rows, prompt-major (row = prompt * G + sample).

    prompt_ids, prompt_mask  (P, T_p) left-padded
    response_ids             (B, T) right-padded, the end token included where there is one
    mask                     (B, T) 1 on response tokens
    log_probs                (B, T) log-probability of each token under the policy that sampled, at
                             its temperature
    stopped                  (B,)   False where max_tokens cut the response off
    sampler_log_probs        (B, T) log-probability under the distribution that the token was drawn
                             from, if that was not the policy itself (rollout/dlc.py), else None
    """

    prompt_ids: torch.Tensor
    prompt_mask: torch.Tensor
    response_ids: torch.Tensor
    mask: torch.Tensor
    log_probs: torch.Tensor
    stopped: torch.Tensor
    sampler_log_probs: torch.Tensor | None = None

    def __post_init__(self):
        rows = self.response_ids.shape[0]
        assert self.prompt_ids.shape == self.prompt_mask.shape
        assert rows % self.prompt_ids.shape[0] == 0, "groups are rectangular"
        assert self.response_ids.shape == self.mask.shape == self.log_probs.shape
        assert self.stopped.shape == (rows,)

    @property
    def group_size(self) -> int:
        return self.response_ids.shape[0] // self.prompt_ids.shape[0]

    def prompts(self, start: int, stop: int) -> RolloutBatch:
        """Return the prompts `start:stop` with all their responses."""
        rows = slice(start * self.group_size, stop * self.group_size)
        return RolloutBatch(
            self.prompt_ids[start:stop],
            self.prompt_mask[start:stop],
            self.response_ids[rows],
            self.mask[rows],
            self.log_probs[rows],
            self.stopped[rows],
            None if self.sampler_log_probs is None else self.sampler_log_probs[rows],
        )


def concatenate(batches: list[RolloutBatch], pad_id: int) -> RolloutBatch:
    """Return one batch of all prompts of `batches`, padded to the longest prompt and response."""
    import torch
    import torch.nn.functional as F

    length = max(batch.prompt_ids.shape[1] for batch in batches)
    width = max(batch.response_ids.shape[1] for batch in batches)

    def together(name: str, left: bool, value: float) -> torch.Tensor:
        size = length if left else width
        tensors = [getattr(batch, name) for batch in batches]
        missing = [size - tensor.shape[1] for tensor in tensors]
        pads = [(n, 0) if left else (0, n) for n in missing]
        return torch.cat([F.pad(t, pad, value=value) for t, pad in zip(tensors, pads, strict=True)])

    return RolloutBatch(
        together("prompt_ids", True, pad_id),
        together("prompt_mask", True, 0),
        together("response_ids", False, pad_id),
        together("mask", False, 0),
        together("log_probs", False, 0),
        torch.cat([batch.stopped for batch in batches]),
        None if batches[0].sampler_log_probs is None else together("sampler_log_probs", False, 0),
    )
