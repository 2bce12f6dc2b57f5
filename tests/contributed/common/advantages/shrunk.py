"""GRPO's mean baseline, shrunk."""

import torch

from common.advantages.parts import require, success


def shrunk(rewards: torch.Tensor, *, correct: torch.Tensor, shrink: float) -> torch.Tensor:
    """Successes and failures are compared with a part of the mean only, (P, G) -> (P, G).

        A_i = r_i - shrink * mean_j r_j

    Source: the sixth paper, Eq. 1.
    m_S = p*(1 - shrink*(p + q/G)), m_F = shrink*p*q*(1 - 1/G)
    `correct` (P, G) says which responses are right; the loop gives it to whatever asks for it.
    shrink = 1 is mean GRPO, shrink = 0 REINFORCE. Raises UserError for a shrink outside [0, 1], or
    graded rewards.
    """
    require(0 <= shrink <= 1, "shrink", shrink, "must be in [0, 1]")
    r = success(rewards, "shrunk", correct=correct)
    return r - shrink * r.mean(1, keepdim=True)
