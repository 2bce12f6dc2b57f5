"""Policy losses whose ratio belongs to the sequence, `(B, T) -> (B, T)`; see `clip.py`."""

from torch import Tensor

from common.losses.clip import log_ratio, surrogate


def gspo(
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    eps_low: float,
    eps_high: float,
) -> tuple[Tensor, Tensor]:
    """GSPO: the ratio belongs to the response, and the clip acts on whole responses.

        s_i     = exp((1 / T_i) sum_t (log_prob_t - old_log_prob_t))
        s_{i,t} = stop_gradient(s_i) exp(log_prob_t - stop_gradient(log_prob_t))
        L_t     = -min(s_{i,t} A, clip(s_{i,t}, 1 - eps_low, 1 + eps_high) A)

    Source: Zheng et al. 2025 (arXiv 2507.18071), Eqs. 5 and 7; two_stage sec 2.
    Peers: verl gspo, TRL GRPOTrainer with importance_sampling_level="sequence"
    This is GSPO-token (their Eqs. 13-14), the straight-through form that verl computes: with one
    advantage per response and sequence_mean_token_mean, value and gradient equal those of GSPO.
    verl also clamps log s at 10 from above; here nothing is clamped. GSPO-N is this loss with the
    advantage `common.advantages.sign.negative_only`.
    The ratio needs all tokens of a response: never split a row.
    """
    lengths = (mask > 0).sum(1, keepdim=True).clamp(min=1)
    log_s = log_ratio(log_prob.detach(), old_log_prob, mask).sum(1, keepdim=True) / lengths
    ratio = (log_s + log_ratio(log_prob, log_prob.detach(), mask)).exp()
    return surrogate(ratio, advantages, eps_low, eps_high)
