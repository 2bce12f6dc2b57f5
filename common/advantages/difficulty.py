"""Advantages that weigh a prompt by its difficulty: `(P, G) rewards -> (P, G) weights`.

p is the prompt's success rate X / G. The lines "m_S =" are explained in `group.py`.
"""

import torch
from torch import Tensor

from common.advantages.group import grpo
from common.advantages.parts import centred, mixed, of_responses, require, success, times


def power_alpha(rewards: Tensor, *, correct: Tensor, alpha: float, normalise: bool) -> Tensor:
    """Power alpha: mean GRPO with more weight on hard prompts; a higher alpha favours harder ones.

        A_i = C (1 - p)^(alpha - 1) (r_i - p)
        C   = 1, or with `normalise` (1 + alpha)^(1 + alpha) / (4 alpha^alpha)      (27)

    Source: FADE Algorithm 1, sec 4.3 and 8.2; C of sec 14, Eq. 27.
    m_S = m_F = C*p*q^alpha
    The paper's text has C, its algorithms do not; without C the update shrinks as alpha grows.
    alpha = 1 is mean GRPO, alpha = 0 is binary contrastive. Algorithm 1 writes p as a mean over the
    batch, but the masses require the prompt's rate.
    Raises UserError for alpha < 0, groups of one, or graded rewards.
    """
    require(alpha >= 0, "alpha", alpha, "must be >= 0")
    r = success(rewards, "power_alpha", correct=correct)
    weight = (1 - r.mean(1, keepdim=True)) ** (alpha - 1)
    return times(_peak(alpha, normalise) * weight, centred(r, "power_alpha"))


def easy_power(rewards: Tensor, *, correct: Tensor, alpha: float, normalise: bool) -> Tensor:
    """Power alpha with more weight on easy prompts.

        A_i = C p^(alpha - 1) (r_i - p),  C as in power_alpha

    Source: FADE sec 4.3.
    m_S = m_F = C*p^alpha*q
    alpha = 1 is mean GRPO, alpha = 0 is MaxRL. Raises UserError as power_alpha does.
    """
    require(alpha >= 0, "alpha", alpha, "must be >= 0")
    r = success(rewards, "easy_power", correct=correct)
    weight = r.mean(1, keepdim=True) ** (alpha - 1)
    return times(_peak(alpha, normalise) * weight, centred(r, "easy_power"))


def _peak(alpha: float, normalise: bool) -> float:
    """Return C of Eq. 27: C p q^alpha then peaks at 1/4 over p, as p q."""
    return (1 + alpha) ** (1 + alpha) / (4 * alpha**alpha) if normalise else 1.0


def asym_power(rewards: Tensor, *, correct: Tensor, alpha_s: float, alpha_f: float) -> Tensor:
    """Asymmetric Power alpha: successes weigh more on hard prompts, failures on easy ones.

        A_i = (1 - p)^(alpha_s - 1) (r_i - p) if r_i = 1,  p^(alpha_f - 1) (r_i - p) if r_i = 0

    Source: FADE sec 8.2, item 2.
    m_S = p*q^alpha_s, m_F = p^alpha_f*q
    alpha_s = alpha_f = 1 is mean GRPO. FADE gives no C for this method. Raises UserError for an
    exponent < 0, groups of one, or graded rewards.
    """
    require(alpha_s >= 0, "alpha_s", alpha_s, "must be >= 0")
    require(alpha_f >= 0, "alpha_f", alpha_f, "must be >= 0")
    r = success(rewards, "asym_power", correct=correct)
    p = r.mean(1, keepdim=True)
    weight = torch.where(r == 1, (1 - p) ** (alpha_s - 1), p ** (alpha_f - 1))
    return times(weight, centred(r, "asym_power"))


def ha_dw(rewards: Tensor, *, correct: Tensor, anchor: float, scale: float) -> Tensor:
    """HA-DW: successes weigh more on prompts harder than the running anchor C_t, failures less.

        A_i = (r_i - p) scale exp(-sgn(r_i - p) sgn(p - C_t) |p - C_t|)

    Source: FADE sec 8.10; Yang et al. 2026 (arXiv 2601.08521), whose lambda_scale is `scale`.
    m_S = scale*p*q*exp(anchor - p), m_F = scale*p*q*exp(p - anchor)
    Peers: none; two pull requests to TRL (4863, 4872) were closed
    The factor multiplies mean GRPO, as in FADE's masses; Yang et al. apply it to GRPO and its
    variants. FADE prints m_F = p q, right at p = C_t only. The controller sets `anchor`, C_t.
    Raises UserError for scale <= 0, groups of one, or graded rewards.
    """
    require(scale > 0, "scale", scale, "must be > 0")
    r = success(rewards, "ha_dw", correct=correct)
    difference = centred(r, "ha_dw")
    # sgn(x) |x| = x
    gap = r.mean(1, keepdim=True) - anchor
    return difference * scale * (-difference.sign() * gap).exp()


def iac(rewards: Tensor, *, alpha: float, unbiased: bool, epsilon: float) -> Tensor:
    """IAC, inverse-success advantage calibration: rare successes weigh more.

        A_i = A_i^GRPO (G - |S+|)^alpha if A_i^GRPO > 0, else A_i^GRPO;  S+ = {i: A_i^GRPO > 0}

    Source: over_sharpening sec 3.1 and Algorithm 1.
    m_S = (G*q)^alpha * sqrt(p*q), m_F = sqrt(p*q); unbiased=false and epsilon=0
    alpha = 0 is GRPO exactly. The factor is >= 1 in every mixed group, so the mean step grows with
    alpha and G. Raises UserError for alpha < 0 or groups of one.
    """
    require(alpha >= 0, "alpha", alpha, "must be >= 0")
    advantage = grpo(rewards, unbiased=unbiased, epsilon=epsilon)
    positive = advantage > 0
    factor = (rewards.shape[1] - positive.sum(1, keepdim=True)).to(rewards.dtype) ** alpha
    return torch.where(positive, factor * advantage, advantage)


def overlong_iac(
    rewards: Tensor,
    *,
    lengths: Tensor,
    alpha: float,
    buffer: float,
    penalty: float,
    max_tokens: int,
    unbiased: bool,
    epsilon: float,
) -> Tensor:
    """DAPO's overlong shaping, where a response near the length limit loses reward, then IAC.

        R_i = r_i - penalty min(max(L_i / T - (1 - buffer), 0) / buffer, 1),  A_i = IAC of R

    Source: DAPO (Yu et al. 2025, Eq. 13), whose L_cache is `buffer` T; with IAC over_sharpening
    sec 4.2 (DAPO+IAC).
    m_S = (G*q)^alpha * sqrt(p*q), m_F = sqrt(p*q); unbiased=false and epsilon=0, none overlong
    Peers: verl's DAPO reward manager (the shaping)
    Overlong responses get less also in a group that is all correct or all wrong. IAC's S+ is {i:
    A_i > 0}, so it may hold a short failure among long ones. alpha = 0 is GRPO. Raises UserError
    for a buffer outside (0, 1], a penalty < 0, lengths of another shape, and as `iac` does.
    """
    require(0 < buffer <= 1, "buffer", buffer, "must be in (0, 1]")
    require(penalty >= 0, "penalty", penalty, "must be >= 0")
    beyond = of_responses(lengths, rewards, "lengths") / max_tokens - (1 - buffer)
    shaped = rewards - penalty * (beyond / buffer).clamp(0, 1)
    return iac(shaped, alpha=alpha, unbiased=unbiased, epsilon=epsilon)


def filter_easiest(
    rewards: Tensor, *, correct: Tensor, fraction: float, unbiased: bool, epsilon: float
) -> Tensor:
    """GRPO without the easiest prompts of the batch: a given fraction of the prompts gets 0.

        A_i = w A_i^GRPO,  w = 0 above the threshold success rate, 1 below, and at it the share of
        the tied prompts that is kept; sum of w over the prompts = (1 - fraction) P

    Source: over_sharpening sec I, Table 5 ("discards the easiest 25%").
    m_S = m_F = w * sqrt(p*q); unbiased=false and epsilon=0
    The paper does not say whether it filters the data set, which would need a pass before training,
    or each batch, as here. fraction = 0 is GRPO exactly.
    Raises UserError for a fraction outside [0, 1], groups of one, or graded rewards.
    """
    require(0 <= fraction <= 1, "fraction", fraction, "must be in [0, 1]")
    r = success(rewards, "filter_easiest", correct=correct)
    solved = r.sum(1)
    easier = (solved > solved[:, None]).sum(1).to(rewards.dtype)
    tied = (solved == solved[:, None]).sum(1).to(rewards.dtype)
    dropped = (fraction * len(solved) - easier).clamp(min=0).minimum(tied)
    return (1 - dropped / tied)[:, None] * grpo(rewards, unbiased=unbiased, epsilon=epsilon)


def curve(rewards: Tensor, *, correct: Tensor) -> Tensor:
    """CurveRL: mean GRPO, where a prompt weighs by the rank and the density of its success rate.

        A_i = w (r_i - p),  w = f(p) / F(p)

    f is the share of the batch's mixed groups that have the same success rate, F the share that
    have the same one or a lower one.
    Source: Sun et al. 2026 (arXiv 2605.24331), w; the authors' code with a pool of 0 batches.
    m_S = m_F = p*q; of a batch of one group, where f = F
    Left out: the authors' default takes f and F from the mixed groups of the ten batches before.
    Raises UserError for groups of one or graded rewards.
    """
    r = success(rewards, "curve", correct=correct)
    mean = centred(r, "curve")
    solved, among = r.sum(1), mixed(r)[:, 0]
    same = ((solved == solved[:, None]) & among).sum(1)
    fewer = ((solved <= solved[:, None]) & among).sum(1)
    return (same.to(r.dtype) / fewer.clamp(min=1))[:, None] * mean


def t2t(
    rewards: Tensor,
    *,
    correct: Tensor,
    lengths: Tensor,
    alpha: float,
    max_tokens: int,
    unbiased: bool,
    epsilon: float,
) -> Tensor:
    """T2T: GRPO with rewards for long failures on hard prompts and short successes on easy ones.

        R_i = 1 - alpha p L_i if r_i = 1,  alpha (1 - p) L_i if r_i = 0
        A_i = (R_i - mean_j R_j) / (std_j R_j + epsilon)

    Source: FADE sec 8.2, Eqs. 12-14; Lin et al. 2026 (arXiv 2602.04265).
    m_S = m_F = p*q*c / sigma; c = 1 - alpha p mean_S(L) - alpha q mean_F(L), sigma = std_j R_j
    FADE says "normalized lengths" but not by what; here L_i = lengths_i / max_tokens, in (0, 1]. A
    group that is all correct or all wrong still ranks its responses by length. Raises UserError for
    alpha < 0, groups of one, lengths of another shape, or graded rewards.
    """
    require(alpha >= 0, "alpha", alpha, "must be >= 0")
    r = success(rewards, "t2t", correct=correct)
    p = r.mean(1, keepdim=True)
    share = of_responses(lengths, rewards, "lengths") / max_tokens
    shaped = torch.where(r == 1, 1 - alpha * p * share, alpha * (1 - p) * share)
    return grpo(shaped, unbiased=unbiased, epsilon=epsilon)
