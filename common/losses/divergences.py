"""Divergences to the base model, on responses that the base model sampled, for rehearsal.

Each is the generator f of an f-divergence, applied element by element, `(B, T) -> (B, T)`:

    D_f(pi || pi_ref) = E_{a ~ pi_ref} f(u),   u = pi(a) / pi_ref(a),   f convex, f(1) = 0

The responses are sampled once, before training, and log pi_ref is kept with them, so no reference
model runs beside the policy. As in the authors' code, u is the ratio of one token given the tokens
before it. For KL the sum over a response is the KL of whole responses (chain rule); for JS it is
only the sum of the tokens' divergences. Values on padding stay on padding.
"""

import math

import torch


def forward_kl(log_prob: torch.Tensor, ref_log_prob: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || pi), which is infinite if the policy never does something the base model does.

        f(u) = u - 1 - log u;   df / d log pi = u - 1

    Source: DPH-F (Li et al. 2025, arXiv 2509.07430); the form with u - 1 is its code's.
    Peers: none
    A summary of the paper has -log u, for which the means of value and gradient are the same, as
    E_ref[u] = 1. The form used here is never negative and has no gradient where u = 1. The code's
    clamps of log u at 20 and of f at 10 are left out.
    """
    d = log_prob - ref_log_prob
    return d.exp() - 1 - d


def jensen_shannon(log_prob: torch.Tensor, ref_log_prob: torch.Tensor) -> torch.Tensor:
    """KL(pi || m) + KL(pi_ref || m) with m = (pi + pi_ref) / 2: at most 2 log 2.

        f(u) = u log u - (u + 1) log((u + 1) / 2);   df / d log pi = u log(2 u / (u + 1))

    Source: DPH-JS (Li et al. 2025, arXiv 2509.07430), in generator form as in its code.
    Peers: none
    This is twice the Jensen-Shannon divergence. For u near 1 it is half of `forward_kl`. For u = 0
    it is log 2 and has no gradient, while `forward_kl` grows without bound.
    """
    d = log_prob - ref_log_prob
    u = d.exp()
    return u * d - (u + 1) * (torch.nn.functional.softplus(d) - math.log(2))
