"""Policy losses that clip the ratio of each token, `(B, T) -> (B, T)`, to be minimised.

Every policy loss of this package takes log_prob (with gradient), old_log_prob of the policy that
sampled, the advantage of each response (B, 1) or token (B, T), and a mask that is 1 on response
tokens. It returns (loss, clipped): clipped marks the tokens whose gradient the clip removed or
bounded. The losses that clip raise UserError for advantages of another shape, and for clip ranges
outside 0 <= eps_low <= 1, 0 <= eps_high. Values on padding, inf and nan included, change no value
and no gradient of a real token; padding itself gets gradient 0. Aggregation is in `aggregate.py`.
A line "Peers:" names what verl and TRL call the same; without it, they do not have it.
"""

import torch
from torch import Tensor

from common.errors import UserError, require


def ppo_clip(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> tuple[Tensor, Tensor]:
    """The clipped surrogate of PPO and GRPO; DAPO is eps_high > eps_low.

        r_t = exp(log_prob - old_log_prob)
        L_t = -min(r_t A, clip(r_t, 1 - eps_low, 1 + eps_high) A)

    Source: F-GRPO sec 2.2; Schulman et al. 2017.
    Peers: TRL GRPOTrainer without delta; verl vanilla where clip_ratio_c is out of reach
    There is no dual clip and no clamp on the log-ratio, unlike in verl's "vanilla" loss, which is
    `dual_clip`.
    """
    ratio = log_ratio(log_prob, old_log_prob, mask).exp()
    return surrogate(ratio, advantages, eps_low, eps_high)


def dual_clip(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    eps_low: float,
    eps_high: float,
    clip_ratio_c: float,
) -> tuple[Tensor, Tensor]:
    """PPO with a second bound, for tokens of negative advantage whose ratio rose.

        r_t = exp(clip(log_prob - old_log_prob, -20, 20))
        L_t = L_t of ppo_clip             where A >= 0
        L_t = min(L_t of ppo_clip, -c A)  where A < 0

    Source: Ye et al. 2020 (arXiv 1912.09729); verl's clamp.
    Peers: verl vanilla, TRL GRPOTrainer with delta = c, without the clamp
    The clamp at 20 prevents overflow; beyond it a token has no gradient.
    Raises UserError for clip_ratio_c <= 1, which would cut into the ordinary clip range.
    """
    require(clip_ratio_c > 1, "method.loss.clip_ratio_c", clip_ratio_c, "must be above 1")
    ratio = log_ratio(log_prob, old_log_prob, mask).clamp(-20, 20).exp()
    loss, clipped = surrogate(ratio, advantages, eps_low, eps_high)
    bound = -clip_ratio_c * advantages
    held = (advantages < 0) & (loss > bound)
    return torch.where(held, bound, loss), clipped | held


def cispo(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> tuple[Tensor, Tensor]:
    """CISPO: the importance weight is clipped, but no token loses its gradient.

        w_t = stop_gradient(clip(r_t, 1 - eps_low, 1 + eps_high))
        L_t = -w_t A log_prob

    Source: F-GRPO Eq. 5; Chen et al. 2025 (arXiv 2506.13585).
    Peers: verl cispo, TRL GRPOTrainer with loss_type="cispo", which has no lower bound
    verl's version clamps the log-ratio at 20; TRL's epsilon_high is the bound itself, which is
    1 + eps_high here.
    """
    _fits(log_prob, advantages, eps_low, eps_high)
    ratio = (log_prob.detach() - old_log_prob).exp()
    weight = ratio.clamp(1 - eps_low, 1 + eps_high)
    return -weight * advantages * torch.where(mask > 0, log_prob, 0), weight != ratio


def log_ratio(log_prob: Tensor, old_log_prob: Tensor, mask: Tensor) -> Tensor:
    """Return log_prob - old_log_prob, (B, T), with value and gradient 0 on padding."""
    # torch.where, not a product: 0 times inf or nan is nan
    return torch.where(mask > 0, log_prob - old_log_prob, 0)


def surrogate(
    ratio: Tensor, advantages: Tensor, eps_low: float, eps_high: float
) -> tuple[Tensor, Tensor]:
    """Return -min(r A, clip(r, 1 - eps_low, 1 + eps_high) A) for any kind of ratio, and where it is
    clipped. Raises UserError as the losses do."""
    _fits(ratio, advantages, eps_low, eps_high)
    free = ratio * advantages
    bounded = ratio.clamp(1 - eps_low, 1 + eps_high) * advantages
    return -torch.minimum(free, bounded), (bounded < free).detach()


def _fits(tokens: Tensor, advantages: Tensor, eps_low: float, eps_high: float) -> None:
    response, token = (*tokens.shape[:-1], 1), tuple(tokens.shape)
    if tuple(advantages.shape) not in (response, token):
        raise UserError(
            f"advantages of shape {tuple(advantages.shape)}: give one for each response, "
            f"{response}, or for each token, {token}"
        )
    require(0 <= eps_low <= 1, "method.loss.eps_low", eps_low, "must be in [0, 1]")
    require(eps_high >= 0, "method.loss.eps_high", eps_high, "must be at least 0")
