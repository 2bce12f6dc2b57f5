"""Samplers whose weights are older than the trainer's: what asynchronous training does to the
samples, in one process (FADE Sec. 11.1; `sampling.lag`).

The paper's samplers generate with the newest weights that reached them while the trainer goes on.
Here every rollout is drawn with the weights of exactly `lag` optimiser updates ago, or with those
that training started from where there were fewer. Its stored log-probabilities are those of the
weights that drew it, so the loss's ratio is pi_theta / pi_sampler. A rollout of several
mini-batches ages further while it is trained on: the last is lag + mini_batches - 1 updates old.
"""

import copy
from collections import deque

import torch


class Lagged:
    """Weights of the last `lag` updates, and a second model that samples with the oldest of them.
    Memory: lag + 1 copies of the model."""

    def __init__(self, policy, lag: int):
        self.policy = policy
        self.old = copy.deepcopy(policy)
        self.past: deque[dict[str, torch.Tensor]] = deque(maxlen=lag)

    def before_update(self) -> None:
        """Keep the weights that the next update changes."""
        held = self.policy.state_dict().items()
        self.past.append({name: value.detach().clone() for name, value in held})

    def sampler(self):
        """The model that the next rollout is drawn with."""
        if not self.past:
            return self.policy  # not updated yet
        self.old.load_state_dict(self.past[0])
        return self.old

    def state_dict(self) -> list[dict[str, torch.Tensor]]:
        return list(self.past)

    def load_state_dict(self, state: list[dict[str, torch.Tensor]]) -> None:
        self.past.extend(state)
