"""Functions that the advantages share: checks, success in {0, 1}, centring."""

import torch
from torch import Tensor

from common import errors


def require(condition: bool, name: str, value: float, remedy: str) -> None:
    """Raise UserError "method.advantage.name=value: remedy" unless `condition` holds."""
    errors.require(condition, f"method.advantage.{name}", value, remedy)


def needs_groups(rewards: Tensor, method: str) -> None:
    """Raise UserError for groups of one, and for rewards that are not floating-point (P, G)."""
    if rewards.ndim != 2 or not rewards.is_floating_point():
        raise errors.UserError(
            f"rewards of shape {tuple(rewards.shape)}, {rewards.dtype}: {method} takes one number "
            "for each prompt and response, (P, G) in floating point"
        )
    remedy = f"{method} compares the responses of a group; use 2 or more"
    errors.require(rewards.shape[1] >= 2, "sampling.group_size", rewards.shape[1], remedy)


def success(rewards: Tensor, method: str, *, correct: Tensor) -> Tensor:
    """Return 1 for each correct response and 0 for each wrong one, (P, G) in the dtype of the
    rewards: (R - R_w) / (R_c - R_w) of F-GRPO Eq. 14. Raises UserError for graded rewards, and if
    `correct` is not a boolean mask of the rewards' shape."""
    if correct.shape != rewards.shape or correct.dtype != torch.bool:
        raise errors.UserError(
            f"correct of shape {tuple(correct.shape)}, {correct.dtype}: give one truth value for "
            f"each of the {tuple(rewards.shape)} rewards"
        )
    for side in (rewards[correct], rewards[~correct]):
        if (side != side[:1]).any():
            raise errors.UserError(
                f"reward={rewards.unique()[:5].tolist()}: {method} is defined for two rewards, one "
                "of correct and one of wrong responses; take a verifier that does not grade and "
                "method.kl_in_reward=false, or a method that compares rewards, such as grpo"
            )
    return correct.to(rewards.dtype)


def mixed(rewards: Tensor) -> Tensor:
    """Return which groups have more than one distinct reward, (P, 1)."""
    return (rewards != rewards[:, :1]).any(1, keepdim=True)


def centred(rewards: Tensor, method: str) -> Tensor:
    """Return R_i - mean_j R_j, and exactly 0 for a group of equal rewards, despite rounding."""
    needs_groups(rewards, method)
    return torch.where(mixed(rewards), rewards - rewards.mean(1, keepdim=True), 0.0)


def times(weight: Tensor, advantage: Tensor) -> Tensor:
    """Return weight * advantage, and 0 where the advantage is 0 and the weight may be infinite."""
    return torch.where(advantage == 0, 0.0, weight * advantage)


def of_responses(values: Tensor, rewards: Tensor, name: str) -> Tensor:
    """Return `values` in the rewards' dtype. Raises UserError unless each reward has one."""
    if values.shape != rewards.shape:
        raise errors.UserError(
            f"{name} of shape {tuple(values.shape)}: give one number for each of the "
            f"{tuple(rewards.shape)} rewards"
        )
    return values.to(rewards.dtype)
