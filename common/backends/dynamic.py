"""Rollouts with their verdicts and rewards, and DAPO's dynamic sampling, which draws until a step
has enough groups with mixed rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from common.errors import require
from common.types import RolloutBatch, Verdict, concatenate


@dataclass(frozen=True)
class Rollout:
    """P groups of responses: a verdict and a reward for each."""

    batch: RolloutBatch
    verdicts: list[Verdict]
    rewards: torch.Tensor  # (P, G)
    gap: float | None = None  # of log-probabilities, see rollout/samplers.py

    @property
    def mixed(self) -> torch.Tensor:
        """Which groups have more than one reward, (P,)."""
        return self.rewards.amax(1) > self.rewards.amin(1)

    def groups(self) -> list[Rollout]:
        """Each group by itself."""
        G = self.batch.group_size
        return [
            Rollout(self.batch.prompts(i, i + 1), self.verdicts[i * G : (i + 1) * G], row[None])
            for i, row in enumerate(self.rewards)
        ]


def joined(rollouts: list[Rollout], pad_id: int) -> Rollout:
    """One rollout of all groups of `rollouts`."""
    if len(rollouts) == 1:
        return rollouts[0]
    return Rollout(
        concatenate([one.batch for one in rollouts], pad_id),
        [verdict for one in rollouts for verdict in one.verdicts],
        torch.cat([one.rewards for one in rollouts]),
    )


def until_mixed(draw: Callable[[int], Rollout], *, groups: int, most: int) -> list[Rollout]:
    """Rollouts of `draw(0)`, `draw(1)`, ... until so many groups have mixed rewards, but no more
    than `most`: 1 turns dynamic sampling off."""
    drawn: list[Rollout] = []
    while len(drawn) < most and sum(int(one.mixed.sum()) for one in drawn) < groups:
        drawn.append(draw(len(drawn)))
    return drawn


def drawn_shares(row: Mapping[str, float]) -> dict[str, float]:
    """`mixed` and `parsed` as `first_step` takes them, of a row of the curve: of all that was
    drawn, where groups were evicted and the row says so."""
    if "drawn_mixed" in row:
        return {"mixed": row["drawn_mixed"], "parsed": row["drawn_parsed"]}
    return {"mixed": row["active_groups"], "parsed": 1 - row["unparsed"]}


def first_step(*, mixed: float, parsed: float, mu: float) -> str:
    """What the first step of a memory network (DLC) has drawn, in words. Where it agrees with the
    policy, pi - mu phi is a temperature of 1 / (1 - mu), and answers may no longer parse. Raises
    UserError where no answer parses and no group has mixed rewards: neither network would learn. A
    small batch without a mixed group alone may be chance."""
    said = f"of the first step's draws {100 * parsed:.3g} % parsed, {100 * mixed:.3g} % of groups"
    remedy = f"{said} are mixed, so nothing can be learned; lower it, or sampling.temperature"
    require(mixed > 0 or parsed > 0, "method.sampler.mu", mu, remedy)
    return f"method.sampler.mu={mu}: {said} are mixed"


def kept(drawn: list[Rollout], *, groups: int, pad_id: int) -> Rollout:
    """The first `groups` groups with mixed rewards. Groups without a gradient fill what is missing
    (verl stops with an error)."""
    if len(drawn) == 1:
        return drawn[0]
    every = [group for one in drawn for group in one.groups()]
    return joined(sorted(every, key=lambda group: not group.mixed)[:groups], pad_id)
