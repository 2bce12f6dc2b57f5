"""Advantages that compare a response with its group: `(P, G) rewards -> (P, G) weights`.

P prompts, G responses a prompt (N in F-GRPO). Pure functions; keyword arguments are named as in the
paper.
"""

import torch

from common.errors import UserError


def grpo(rewards: torch.Tensor, *, unbiased: bool, epsilon: float) -> torch.Tensor:
    """GRPO's group-relative advantage (F-GRPO Eq. 4; Shao et al. 2024).

        A_i = (R_i - mean_j R_j) / (std_j R_j + epsilon)

    A group of equal rewards gets exactly 0. `unbiased` divides the variance by G - 1 (torch and
    verl) or by G; the papers do not say which, and epsilon is a symbol without a value.
    Raises UserError for groups of one, which have nothing to compare with.
    """
    _needs_groups(rewards, "grpo")
    centred = rewards - rewards.mean(1, keepdim=True)
    std = rewards.std(1, keepdim=True, correction=int(unbiased))
    return torch.where(std > 0, centred / (std + epsilon), torch.zeros_like(centred))


def focal(
    rewards: torch.Tensor,
    *,
    gamma: float,
    reward_correct: float,
    reward_wrong: float,
    unbiased: bool,
    epsilon: float,
) -> torch.Tensor:
    """F-GRPO's focal-weighted advantage (Eqs. 14-16): prompts that mostly succeed weigh less.

        mu_hat = (mean_j R_j - R_w) / (R_c - R_w) = X / N          (14)
        g      = (1 - mu_hat)^gamma                                (15)
        A_i    = g * A_i^GRPO                                      (16)

    gamma = 0 is GRPO exactly. F-DAPO and F-CISPO are this advantage with their own loss.
    Raises UserError for gamma < 0, groups of one, or a reward that is neither R_c nor R_w.
    """
    weight = focal_weight(
        rewards, gamma=gamma, reward_correct=reward_correct, reward_wrong=reward_wrong
    )
    return weight * grpo(rewards, unbiased=unbiased, epsilon=epsilon)


def focal_weight(
    rewards: torch.Tensor, *, gamma: float, reward_correct: float, reward_wrong: float
) -> torch.Tensor:
    """g of Eq. 15 for each prompt, (P, 1), in [0, 1]. Raises as `focal` does."""
    if gamma < 0:
        raise UserError(f"method.advantage.gamma={gamma}: must be >= 0")
    correct = rewards == reward_correct
    if not (correct | (rewards == reward_wrong)).all():
        raise UserError(
            f"reward={rewards.unique()[:5].tolist()}: the focal weight is defined for two rewards, "
            f"R_c={reward_correct} and R_w={reward_wrong} (Eq. 14); mend reward.correct and .wrong"
        )
    # Counted, not averaged: mu_hat = X / N without the rounding of a mean of floats.
    mu_hat = correct.to(rewards.dtype).sum(1, keepdim=True) / rewards.shape[1]
    return (1 - mu_hat) ** gamma


def _needs_groups(rewards: torch.Tensor, method: str) -> None:
    if rewards.shape[1] < 2:
        raise UserError(
            f"sampling.group_size={rewards.shape[1]}: {method} compares the responses of a group; "
            "use 2 or more"
        )
