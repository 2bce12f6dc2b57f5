"""Differential smoothing: an advantage that depends on how likely the response was."""

import torch
from torch import Tensor

from common.errors import require
from common.losses.clip import ppo_clip


def smoothed_ppo_clip(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    eps_low: float,
    eps_high: float,
    gamma_p: float,
    gamma_n: float,
) -> tuple[Tensor, Tensor]:
    """PPO's clip with the advantage of differential smoothing (DS-GRPO).

        A_i^DS = A_i - gamma_p log pi_old(y_i | x)   if r_i = R_c, so A_i > 0
               = A_i + gamma_n log pi_old(y_i | x)   otherwise, so A_i < 0; an A_i of 0 stays 0
        L_t    = -min(r_t A^DS, clip(r_t, 1 - eps_low, 1 + eps_high) A^DS)

    Source: Gai et al. 2025 (arXiv 2511.19942), Eq. 6; F-GRPO v2 sec 5.6 compares with it.
    The equation was read in two public transcriptions that agree, not in the paper. The paper's
    theory (Eq. 4) takes the log-probability of the base model, its algorithm that of the sampling
    policy, as here. It is the log-probability of the whole response, a sum over tokens: no length
    normaliser is printed. The shift has no baseline: in a group of right answers only, all are
    raised, the rarest most. gamma_p = gamma_n = 0 is `ppo_clip`. The loss needs the advantage
    `grpo_signed`, which tells right from wrong in a group of equal rewards too. Raises UserError
    for a negative coefficient.
    """
    for name, value in (("gamma_p", gamma_p), ("gamma_n", gamma_n)):
        require(value >= 0, f"method.loss.{name}", value, "must be >= 0")
    s = torch.where(mask > 0, old_log_prob, 0).sum(1, keepdim=True)
    shift = torch.where(advantages > 0, -gamma_p * s, gamma_n * s)
    shifted = torch.where(advantages == 0, 0, advantages + shift)
    return ppo_clip(log_prob, old_log_prob, shifted, mask, eps_low=eps_low, eps_high=eps_high)
