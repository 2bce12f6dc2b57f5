"""Advantages that look at how likely each response was: rarer right answers gain more.

`log_probs` (P, G) is log pi_old(y_i | x), the sum over a response's tokens, in nats, under the
policy that sampled it. The lines "m_S =" hold for groups whose responses are equally likely.
"""

import torch
from torch import Tensor

from common.advantages.group import grpo
from common.advantages.parts import needs_groups, of_responses, require, success


def unlikeliness(
    rewards: Tensor,
    *,
    correct: Tensor,
    log_probs: Tensor,
    lengths: Tensor,
    beta: float,
    unbiased: bool,
    epsilon: float,
) -> Tensor:
    """GRPO on the unlikeliness reward: the likelier a right answer was, the less it is worth.

        r_i' = r_i (1 - beta rank_i / G),   rank_i = 0, 1, ... by s_i = log pi_old(y_i | x) / |y_i|
        A_i  = GRPO of r'

    Source: He et al. 2025 (arXiv 2506.02355), the unlikeliness reward; beta = 0.25, as the authors'
    code, where it is rank_penalty.
    m_S = m_F = sqrt(p*q); unbiased=false and epsilon=0, for equally likely responses
    Peers: none
    r_i is 1 or 0, whatever the rewards are. Equally likely responses share the mean of their ranks
    (our choice). In a group of right answers only, the rarer half rises. beta = 0 is `grpo`. Left
    out: the paper's second epoch on each batch and its heavier KL penalty. The formula was read in
    the authors' code, not in the paper. Raises UserError for beta outside [0, 1], groups of one,
    graded rewards, or log_probs or lengths of another shape.
    """
    require(0 <= beta <= 1, "beta", beta, "must be in [0, 1]")
    needs_groups(rewards, "unlikeliness")
    right = success(rewards, "unlikeliness", correct=correct)
    s, size = _of_a_token(log_probs, lengths, rewards), rewards.shape[1]
    # how many of the group are below each; those that equal it count half
    rank = (torch.sign(s[:, :, None] - s[:, None]).sum(2) + size - 1) / 2
    return grpo(right * (1 - beta * rank / size), unbiased=unbiased, epsilon=epsilon)


def ucpo(
    rewards: Tensor,
    *,
    correct: Tensor,
    log_probs: Tensor,
    lengths: Tensor,
    tau: float,
    unbiased: bool,
    epsilon: float,
) -> Tensor:
    """UCPO: the right answers of a group share what GRPO gives them, and rarer ones get more.

        q_i = exp(s_i) / sum_{j right} exp(s_j),   s_i = log pi_old(y_i | x) / |y_i|
        w_i = (1 - tau) + tau n (1 / q_i) / sum_{j right} 1 / q_j,   n = how many are right
        A_i = w_i A_i^GRPO (right), A_i^GRPO (wrong)

    Source: Lochab et al. 2026 (arXiv 2605.00365), uniform-correct policy optimisation; tau = 0.2.
    m_S = m_F = sqrt(p*q); unbiased=false and epsilon=0
    Peers: none
    The w_i of a group's right answers have the mean 1, so the gradient mass is GRPO's.
    tau = 0 is `grpo`. The formula was read in the authors' code, not in the paper. Left out: the
    code's lower bound of 1e-6 on q_i and its sharpening of wrong answers, off by default.
    Raises UserError for tau outside [0, 1], groups of one, graded rewards, or other shapes.
    """
    require(0 <= tau <= 1, "tau", tau, "must be in [0, 1]")
    advantage = grpo(rewards, unbiased=unbiased, epsilon=epsilon)
    right = success(rewards, "ucpo", correct=correct) > 0
    surprise = -_of_a_token(log_probs, lengths, rewards)
    # 1 / q_i over its sum is a softmax of -s_i; without a right answer it is nan
    target = torch.softmax(surprise.masked_fill(~right, -torch.inf), 1).nan_to_num(0.0)
    weight = 1 - tau + tau * (right.sum(1, keepdim=True) * target)
    return torch.where(right, weight * advantage, advantage)


def _of_a_token(log_probs: Tensor, lengths: Tensor, rewards: Tensor) -> Tensor:
    """Return the mean log-probability of each response's tokens, s (P, G), in nats."""
    counts = of_responses(lengths, rewards, "lengths").clamp(min=1)
    return of_responses(log_probs, rewards, "log_probs") / counts
