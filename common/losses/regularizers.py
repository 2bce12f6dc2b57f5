"""Estimates of KL(pi || pi_ref), added to a policy loss per token `(B, T)` (Schulman 2020).

Here d_t = log_prob - ref_log_prob on samples of pi. Each of the three has the mean or the gradient
of the KL only on samples of the current policy; none is corrected for older samples. They work
element by element, so values on padding stay on padding.
"""

from torch import Tensor


def kl_k1(log_prob: Tensor, ref_log_prob: Tensor) -> Tensor:
    """The estimator k1: unbiased, of either sign.

        k1_t = d_t

    Source: Schulman 2020.
    Peers: verl k1
    Its gradient has mean 0, so as a penalty in the loss it only adds noise.
    """
    return log_prob - ref_log_prob


def kl_k2(log_prob: Tensor, ref_log_prob: Tensor) -> Tensor:
    """The estimator k2: biased, but the mean of its gradient is the gradient of the KL.

        k2_t = d_t^2 / 2

    Source: Schulman 2020.
    Peers: verl k2
    """
    return (log_prob - ref_log_prob) ** 2 / 2


def kl_k3(log_prob: Tensor, ref_log_prob: Tensor) -> Tensor:
    """The estimator k3: unbiased and non-negative. The mean of its gradient is the gradient of
    KL(pi_ref || pi).

        k3_t = exp(-d_t) + d_t - 1

    Source: Schulman 2020; GRPO's own penalty (Shao et al. 2024).
    Peers: TRL GRPOTrainer, verl k3 with the log-ratio clamped at 20 and the estimate at 10
    F-GRPO App. G names a "KL penalty" but no estimator.
    """
    difference = ref_log_prob - log_prob
    return difference.exp() - difference - 1
