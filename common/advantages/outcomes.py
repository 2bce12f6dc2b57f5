"""Advantages that look at which answers of a group are the same: rarer right answers gain more.

`outcomes` (P, G) are integers; responses of one prompt with the same number have the same answer.
The lines "m_S =" hold for groups whose right answers are all the same and whose wrong ones all
differ. These methods act where a prompt has many right answers, as on Countdown and mazes. In
mathematics every right answer is one outcome, so only wrong ones are told apart.
"""

import torch
from torch import Tensor

from common.advantages.group import grpo
from common.advantages.parts import needs_groups, of_responses, require, success


def inverse_probability(
    rewards: Tensor, *, correct: Tensor, outcomes: Tensor, unbiased: bool, epsilon: float
) -> Tensor:
    """IPS-GRPO: GRPO on rewards that are divided by how often their outcome was drawn.

        r_i' = r_i / f(o_i),   f(o) = |{j: o_j = o}| / G
        A_i  = GRPO of r'

    Source: Sinha et al. 2026 (arXiv 2601.21669), inverse probability scaling.
    m_S = m_F = sqrt(p*q); unbiased=false and epsilon=0
    Peers: none
    r_i is 1 or 0, whatever the rewards are. Each right answer's responses are together worth as
    much as any other's. If every outcome is drawn equally often, this is `grpo`. The formula was
    read in others' code and notes on the paper, which agree, not in the paper.
    Raises UserError for groups of one, graded rewards, or outcomes of another shape.
    """
    right = success(rewards, "inverse_probability", correct=correct)
    share = _counts(outcomes, rewards, "inverse_probability") / rewards.shape[1]
    return grpo(right / share, unbiased=unbiased, epsilon=epsilon)


def uniqueness(
    rewards: Tensor,
    *,
    correct: Tensor,
    outcomes: Tensor,
    alpha: float,
    normalise: bool,
    unbiased: bool,
    epsilon: float,
) -> Tensor:
    """Uniqueness-aware RL, with `normalise` Cue-GRPO: repeated right answers are worth less.

        A_i = w_i A_i^GRPO (right), A_i^GRPO (wrong),   w_i = |{j: o_j = o_i}|^-alpha
        with `normalise` w_i is divided by its mean over the group's right answers

    Source: Hu et al. 2026 (arXiv 2601.08763), uniqueness-aware reinforcement learning; with
    `normalise` arXiv 2608.03467, Cue-GRPO.
    m_S = (p*G)^-alpha * sqrt(p*q), m_F = sqrt(p*q); unbiased=false, epsilon=0 and normalise=false;
    normalise=true makes m_S equal to m_F
    Peers: none
    Both papers group responses by the way to the answer; here the answer itself is the group. alpha
    = 0 is `grpo`. The formulas were read in others' notes, not in the papers. By one note the first
    paper weighs wrong answers likewise; by those on the second (Eq. 3) they stay as they are.
    Raises UserError for alpha < 0, groups of one, graded rewards, or outcomes of another shape.
    """
    require(alpha >= 0, "alpha", alpha, "must be >= 0")
    advantage = grpo(rewards, unbiased=unbiased, epsilon=epsilon)
    right = success(rewards, "uniqueness", correct=correct)
    weight = _counts(outcomes, rewards, "uniqueness") ** -alpha
    if normalise:
        mean = (right * weight).sum(1, keepdim=True) / right.sum(1, keepdim=True).clamp(min=1)
        weight = weight / mean.clamp(min=torch.finfo(rewards.dtype).tiny)
    return torch.where(right > 0, weight * advantage, advantage)


def batch_exploration(
    rewards: Tensor, *, outcomes: Tensor, coefficient: float, unbiased: bool, epsilon: float
) -> Tensor:
    """Outcome-based exploration, batch form: repeated answers, right or wrong, are worth less.

        A_i = A_i^GRPO - coefficient * |{j != i: o_j = o_i}| / G

    Source: Song et al. 2025 (arXiv 2509.06941), batch exploration.
    m_S = sqrt(p*q) - c*p*(p*G - 1)/G, m_F = sqrt(p*q); unbiased=false and epsilon=0
    Peers: none
    The penalty is not centred. coefficient = 0 is `grpo`. Others' notes, not the paper, were read;
    they give no coefficient and do not say whether the reward or, as here, the advantage gets it.
    Raises UserError for coefficient < 0, groups of one, or outcomes of another shape.
    """
    require(coefficient >= 0, "coefficient", coefficient, "must be >= 0")
    repeated = (_counts(outcomes, rewards, "batch_exploration") - 1) / rewards.shape[1]
    return grpo(rewards, unbiased=unbiased, epsilon=epsilon) - coefficient * repeated


def _counts(outcomes: Tensor, rewards: Tensor, method: str) -> Tensor:
    """Return how many responses of its group share a response's outcome, (P, G)."""
    needs_groups(rewards, method)
    outcomes = of_responses(outcomes, rewards, "outcomes")
    return (outcomes[:, :, None] == outcomes[:, None]).sum(2).to(rewards.dtype)
