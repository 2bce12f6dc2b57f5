"""Rollouts with verdicts and rewards, and DAPO's dynamic sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from common.types import Outcome, Prompt, RolloutBatch, Verdict, Verify, concatenate

UNDECIDED: list[Outcome] = ["unparsed", "timeout", "error"]  # outcomes whose share is logged


@dataclass(frozen=True)
class Rollout:
    """P groups of G responses, with a verdict and a reward for each response."""

    batch: RolloutBatch
    verdicts: list[Verdict]
    rewards: torch.Tensor  # (P, G)
    gap: float | None = None  # mean |difference| of log-probabilities, see rollout/samplers.py

    @property
    def mixed(self) -> torch.Tensor:
        """Return whether each group's rewards differ, (P,)."""
        return self.rewards.amax(1) > self.rewards.amin(1)

    @property
    def outcomes(self) -> torch.Tensor:
        """Return a number for each response's answer, (P, G), the same for a group's equal ones."""
        G = self.batch.group_size
        answers = [(row // G, verdict.parsed) for row, verdict in enumerate(self.verdicts)]
        return torch.tensor(numbered(answers)).view(-1, G)

    def groups(self) -> list[Rollout]:
        G = self.batch.group_size
        return [
            Rollout(self.batch.prompts(i, i + 1), self.verdicts[i * G : (i + 1) * G], row[None])
            for i, row in enumerate(self.rewards)
        ]


def numbered(answers: Sequence[tuple]) -> list[int]:
    """Return a number for each (group, answer), the same for equal ones."""
    known: dict[tuple, int] = {}
    return [known.setdefault(one, len(known)) for one in answers]


def judged(batch: RolloutBatch, prompts: list[Prompt], tokenizer, verify: Verify) -> list[Verdict]:
    """Return the verdict of every row of the batch, in order."""
    rows = zip(batch.response_ids.tolist(), batch.mask.sum(1).int().tolist(), strict=True)
    texts = tokenizer.batch_decode([row[:n] for row, n in rows], skip_special_tokens=True)
    references = [prompts[row // batch.group_size].reference for row in range(len(texts))]
    return verify(list(zip(texts, references, strict=True)))


def rewards(verdicts: list[Verdict], group_size: int, correct: float, wrong: float) -> torch.Tensor:
    """Return the rewards (P, G): R_c * score + R_w * (1 - score) (F-GRPO Eq. 1)."""
    scores = torch.tensor([verdict.reward for verdict in verdicts]).view(-1, group_size)
    return correct * scores + wrong * (1 - scores)


def joined(rollouts: list[Rollout], pad_id: int) -> Rollout:
    if len(rollouts) == 1:
        return rollouts[0]
    return Rollout(
        concatenate([one.batch for one in rollouts], pad_id),
        [verdict for one in rollouts for verdict in one.verdicts],
        torch.cat([one.rewards for one in rollouts]),
    )


def kept(drawn: list[Rollout], *, groups: int, pad_id: int) -> Rollout:
    """Return the first `groups` groups with mixed rewards, then others if there are too few (stock
    verl draws without end instead: verl/sampling.py). A single rollout is returned whole."""
    if len(drawn) == 1:
        return drawn[0]
    every = [group for one in drawn for group in one.groups()]
    return joined(sorted(every, key=lambda group: not group.mixed)[:groups], pad_id)
