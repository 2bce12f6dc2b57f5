"""PPO's clip with a leak."""

import torch

from common.losses.clip import log_ratio


def leaky_clip(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    eps_low: float,
    eps_high: float,
    leak: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Beyond the clip a share of the gradient is left, (B, T) -> (B, T).

        c_t = clip(r_t, 1 - eps_low, 1 + eps_high);  L_t = -min(r_t A, (c_t + leak (r_t - c_t)) A)

    Source: the sixth paper, Eq. 2.
    leak = 0 is `ppo_clip`.
    """
    ratio = log_ratio(log_prob, old_log_prob, mask).exp()
    clipped = ratio.clamp(1 - eps_low, 1 + eps_high)
    free, bounded = ratio * advantages, (clipped + leak * (ratio - clipped)) * advantages
    return -torch.minimum(free, bounded), (bounded < free).detach()
