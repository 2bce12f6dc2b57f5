"""Estimates of KL(pi || pi_ref), added to a policy loss per token `(B, T)` (Schulman 2020).

With d_t = log_prob - ref_log_prob on samples of pi. All three have the mean or the gradient of the
KL only on samples of the policy itself; none is corrected for old samples. Element by element:
what stands on padding stays there.
"""

import torch


def kl_k1(log_prob: torch.Tensor, ref_log_prob: torch.Tensor) -> torch.Tensor:
    """k1_t = d_t: unbiased, of either sign; its gradient has mean 0, so as a penalty in the loss it
    only adds noise. verl's `kl`."""
    return log_prob - ref_log_prob


def kl_k2(log_prob: torch.Tensor, ref_log_prob: torch.Tensor) -> torch.Tensor:
    """k2_t = d_t^2 / 2: biased, but the mean of its gradient is the gradient of the KL. verl's
    `mse`."""
    return (log_prob - ref_log_prob) ** 2 / 2


def kl_k3(log_prob: torch.Tensor, ref_log_prob: torch.Tensor) -> torch.Tensor:
    """k3_t = exp(-d_t) + d_t - 1: unbiased and non-negative; the mean of its gradient is that of
    KL(pi_ref || pi).

    This is GRPO's own penalty (Shao et al. 2024), TRL's, and verl's `low_var_kl` without verl's
    clamps. F-GRPO App. G names a "KL penalty" and no estimator.
    """
    difference = ref_log_prob - log_prob
    return difference.exp() - difference - 1
