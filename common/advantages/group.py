"""Advantages that compare a response with its group: `(P, G) rewards -> (P, G) weights`.

P prompts have G responses each (N in F-GRPO); keyword arguments are named as in the paper.

The lines "m_S =" give the gradient mass of the successes and of the failures of one group (FADE
sec 2.1), m_S = (1/G) sum_{i in S} A_i and m_F = -(1/G) sum_{i in F} A_i, for rewards in {0, 1} with
X successes and F failures, p = X/G, q = 1 - p. They are Python except for ^; a test evaluates them.
A line "Peers:" names what verl and TRL call the same; without it, they do not have it.
"""

import torch
from torch import Tensor

from common.advantages.parts import centred, mixed, of_responses, require, success, times


def grpo(rewards: Tensor, *, unbiased: bool, epsilon: float) -> Tensor:
    """GRPO's group-relative advantage.

        A_i = (R_i - mean_j R_j) / (std_j R_j + epsilon)

    Source: F-GRPO Eq. 4; FADE sec 8.1; Shao et al. 2024.
    m_S = m_F = sqrt(p*q); unbiased=false and epsilon=0, else times std / (std_unbiased + epsilon)
    Peers: verl grpo, TRL GRPOTrainer with scale_rewards="group"
    A group of equal rewards gets exactly 0. With `unbiased` the variance is divided by G - 1 (as in
    torch and verl), else by G. FADE sec 8 prints 1/B and no epsilon; the other papers give neither
    divisor nor epsilon's value.
    Raises UserError for groups of one (verl gives such a response its reward).
    """
    difference = centred(rewards, "grpo")
    std = rewards.std(1, keepdim=True, correction=int(unbiased))
    return torch.where(mixed(rewards), difference / (std + epsilon), 0.0)


def grpo_signed(rewards: Tensor, *, correct: Tensor, unbiased: bool, epsilon: float) -> Tensor:
    """GRPO with a sign that tells right from wrong also in groups of equal rewards.

        A_i = A_i^GRPO;  +t (right) or -t (wrong) in a group of equal rewards,  t = 2^-126

    Source: F-GRPO Eq. 4; the sign is ours, for DS-GRPO (`common/losses/smoothing.py`).
    m_S = m_F = sqrt(p*q); unbiased=false and epsilon=0
    t is the smallest normal number of float32, which is lost in any sum. Raises UserError for
    groups of one, or graded rewards.
    """
    right = success(rewards, "grpo_signed", correct=correct)
    sign = torch.finfo(torch.float32).tiny * (2 * right - 1)
    advantage = grpo(rewards, unbiased=unbiased, epsilon=epsilon)
    return torch.where(advantage == 0, sign, advantage)


def focal(
    rewards: Tensor, *, correct: Tensor, gamma: float, unbiased: bool, epsilon: float
) -> Tensor:
    """F-GRPO's focal-weighted advantage: prompts that mostly succeed weigh less.

        mu_hat = (mean_j R_j - R_w) / (R_c - R_w) = X / N          (14)
        g      = (1 - mu_hat)^gamma                                (15)
        A_i    = g * A_i^GRPO                                      (16)

    Source: F-GRPO Eqs. 14-16.
    m_S = m_F = q^gamma * sqrt(p*q); unbiased=false and epsilon=0
    gamma = 0 is GRPO exactly. F-DAPO and F-CISPO are this advantage with their own loss.
    Raises UserError for gamma < 0, groups of one, or graded rewards.
    """
    require(gamma >= 0, "gamma", gamma, "must be >= 0")
    right = success(rewards, "the focal weight", correct=correct)
    # Counted, not averaged: mu_hat = X / N without the rounding of a mean of floats.
    weight = (1 - right.sum(1, keepdim=True) / rewards.shape[1]) ** gamma
    return weight * grpo(rewards, unbiased=unbiased, epsilon=epsilon)


def mean_only(rewards: Tensor) -> Tensor:
    """Mean GRPO, the advantage of Dr. GRPO: GRPO without the division.

        A_i = R_i - mean_j R_j

    Source: FADE sec 2.2, Eqs. 4-6; Liu et al. 2025 (Dr. GRPO).
    m_S = m_F = p*q
    Peers: verl grpo with norm_adv_by_std_in_grpo=False, TRL GRPOTrainer with scale_rewards="none"
    Left out: Dr. GRPO's constant length normaliser (the aggregation token_sum).
    Raises UserError for groups of one.
    """
    return centred(rewards, "mean_only")


def reinforce_pp_baseline(rewards: Tensor, *, lengths: Tensor, epsilon: float) -> Tensor:
    """REINFORCE++-baseline: the group mean is subtracted, the whole batch gives the scale.

        c_i = R_i - mean_j R_j
        A_i = (c_i - mean(c)) / sqrt(var(c) + epsilon)

    mean and var are over all response tokens of the batch, so a response of T_i = lengths_i tokens
    counts T_i times: mean = sum_i T_i c_i / N, var = sum_i T_i (c_i - mean)^2 / (N - 1).

    Source: Hu 2025 (arXiv 2501.03262); exactly verl's token layout and its epsilon of 1e-8.
    m_S = m_F = p*q / sigma; sigma = sqrt(var + epsilon), if the token mean is 0 (equal lengths)
    Peers: verl reinforce_plus_plus_baseline
    A group of equal rewards gets the shift -mean(c) / sigma, which is 0 only if mean(c) is 0.
    Raises UserError for groups of one (verl takes a baseline of 0) or lengths of another shape.
    """
    difference = centred(rewards, "reinforce_pp_baseline")
    tokens = of_responses(lengths, rewards, "lengths")
    total = tokens.sum()
    # verl adds its epsilon to the token count as well; done here too, for the same numbers.
    difference = difference - (tokens * difference).sum() / (total + epsilon)
    variance = (tokens * difference**2).sum() / (total + epsilon) * total / (total - 1)
    return difference * (variance + epsilon).rsqrt()


def power_norm(rewards: Tensor, *, correct: Tensor, gamma: float) -> Tensor:
    """Power Norm: a method between mean GRPO (gamma = 0) and GRPO (gamma = 1/2).

        A_i = (r_i - p) / (p (1 - p))^gamma

    Source: FADE sec 8.8; Andrychowicz et al. 2021.
    m_S = m_F = (p*q)^(1 - gamma)
    Equal rewards get 0. Raises UserError for gamma < 0, groups of one, or graded rewards.
    """
    require(gamma >= 0, "gamma", gamma, "must be >= 0")
    r = success(rewards, "power_norm", correct=correct)
    p = r.mean(1, keepdim=True)
    return times((p * (1 - p)) ** -gamma, centred(r, "power_norm"))


def skew_r(rewards: Tensor, *, correct: Tensor) -> Tensor:
    """Skew-R: the masses of GRPO and mean GRPO multiplied; prompts of medium difficulty weigh most.

        A_i = sqrt(p (1 - p)) (r_i - p)

    Source: FADE sec 8.1, which gives the masses only; Thrampoulidis et al. 2025.
    m_S = m_F = p*q * sqrt(p*q)
    Raises UserError for groups of one, or graded rewards.
    """
    r = success(rewards, "skew_r", correct=correct)
    p = r.mean(1, keepdim=True)
    return (p * (1 - p)).sqrt() * centred(r, "skew_r")


def max_rl(rewards: Tensor, *, correct: Tensor) -> Tensor:
    """Maximum-likelihood RL: the gradient of log p rather than of p.

        A_i = (r_i - p) / p

    Source: FADE sec 8.3; Tajwar et al. 2026.
    m_S = m_F = q*(p > 0)
    A group without a success gets 0 (0/0 in the formula).
    Raises UserError for groups of one, or graded rewards.
    """
    r = success(rewards, "max_rl", correct=correct)
    return times(1 / r.mean(1, keepdim=True), centred(r, "max_rl"))


def binary_contrastive(rewards: Tensor, *, correct: Tensor) -> Tensor:
    """Binary contrastive: max_rl with success and failure exchanged; easy prompts weigh most.

        A_i = 1 if r_i = 1, -p / (1 - p) if r_i = 0; that is (r_i - p) / (1 - p)

    Source: FADE sec 8.7; Greensmith et al. 2004.
    m_S = m_F = p*(p < 1)
    A group without a failure gets 0; the printed formula would give it weights of 1.
    Raises UserError for groups of one, or graded rewards.
    """
    method = "binary_contrastive"
    r = success(rewards, method, correct=correct)
    return times(1 / (1 - r.mean(1, keepdim=True)), centred(r, method))
