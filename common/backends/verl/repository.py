"""CW-GRPO as in its author's repository, for a trainer that cannot give a loss whole groups."""

import torch

from common.losses.aggregate import sequence_mean_token_mean
from common.losses.covariance import cw_grpo_repository


def cw_grpo_repository_weights(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    group_size: int,
) -> torch.Tensor:
    """Return the token weights with which ppo_clip's first step is that of `cw_grpo_repository`.

        w_t = -(dL / d log_prob_t) / (A_t / (G T_i)),  L = 1/G sum_i 1/T_i sum_t L_t of the group

    Source: WangCheng0116/CW-GRPO at 4259d837.
    Peers: none
    Rows are prompt-major; a group's padding ends with its longest response, as in the repository.
    w_t is 0 where A_t = 0, and may be negative: a gradient flows through the repository's weights.
    """
    slopes = torch.zeros_like(log_prob)
    for start in range(0, len(mask), group_size):
        rows = slice(start, start + group_size)
        width = int((mask[rows] > 0).sum(1).max())
        part = (x[rows, :width] for x in (old_log_prob, advantages, mask))
        with torch.enable_grad():
            given = log_prob[rows, :width].detach().requires_grad_()
            loss, _ = cw_grpo_repository(given, *part)
            total = (loss * sequence_mean_token_mean(mask[rows, :width])).sum()
        slopes[rows, :width] = torch.autograd.grad(total, given)[0]
    share = sequence_mean_token_mean(mask) * (len(mask) / group_size)
    scale = advantages * share
    return torch.where(scale != 0, -slopes / scale.where(scale != 0, 1), 0)
