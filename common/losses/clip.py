"""Per-token policy losses, `(B, T) -> (B, T)`, to be minimised; aggregation is in `aggregate.py`.

Each takes log_prob (with gradient), old_log_prob of the policy that sampled, and the advantage of
each row, (B, 1) or (B, T), and returns (loss, clipped): clipped marks the tokens whose gradient the
clip removed or bounded.
"""

import torch


def ppo_clip(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The clipped surrogate of PPO and GRPO (F-GRPO sec 2.2); DAPO is eps_high > eps_low.

        r_t = exp(log_prob - old_log_prob)
        L_t = -min(r_t A, clip(r_t, 1 - eps_low, 1 + eps_high) A)

    No dual clip and no clamp on the log-ratio, unlike verl's "vanilla".
    """
    ratio = (log_prob - old_log_prob).exp()
    surrogate = ratio * advantages
    bounded = ratio.clamp(1 - eps_low, 1 + eps_high) * advantages
    return -torch.minimum(surrogate, bounded), (bounded < surrogate).detach()


def cispo(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """CISPO (F-GRPO Eq. 5; Chen et al. 2025): the importance weight is clipped, no gradient is
    lost.

    w_t = stop_gradient(clip(r_t, 1 - eps_low, 1 + eps_high))
    L_t = -w_t A log_prob
    """
    ratio = (log_prob.detach() - old_log_prob).exp()
    weight = ratio.clamp(1 - eps_low, 1 + eps_high)
    return -weight * advantages * log_prob, weight != ratio
