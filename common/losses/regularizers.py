"""What is added to a policy loss, per token `(B, T)`."""

import torch


def kl_k3(log_prob: torch.Tensor, ref_log_prob: torch.Tensor) -> torch.Tensor:
    """Schulman's k3 estimate of KL(pi || pi_ref), non-negative and unbiased on samples of pi.

        d_t = ref_log_prob - log_prob;  k3_t = exp(d_t) - d_t - 1

    This is GRPO's own penalty (Shao et al. 2024) and verl's `low_var_kl`, without verl's clamps.
    F-GRPO App. G names a "KL penalty" and no estimator.
    """
    difference = ref_log_prob - log_prob
    return difference.exp() - difference - 1
