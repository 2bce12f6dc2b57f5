"""Divergences to the base model, on responses that the base model drew: what is rehearsed.

By the generator f of an f-divergence, element by element, `(B, T) -> (B, T)`:

    D_f(pi || pi_ref) = E_{a ~ pi_ref} f(u),   u = pi(a) / pi_ref(a),   f convex, f(1) = 0

The responses are drawn once, before training, and with them log pi_ref: no reference model runs
beside the policy. u is of one token given those before it, as in the authors' code, so the sum over
a response is the KL of whole responses (chain rule), but of JS only the sum of the tokens'. What
stands on padding stays there.
"""

import math

import torch


def forward_kl(log_prob: torch.Tensor, ref_log_prob: torch.Tensor) -> torch.Tensor:
    """KL(pi_ref || pi), which is infinite where the policy gives up what the base model does.

        f(u) = u - 1 - log u;   df / d log pi = u - 1

    Source: DPH-F (Li et al. 2025, arXiv 2509.07430); the form with u - 1 is its code's.
    Peers: none
    The paper prints -log u, whose mean and whose gradient's mean are the same, as E_ref[u] = 1;
    this one is never negative and has no gradient where u = 1. Left out: the code's clamps of log u
    at 20 and of f at 10.
    """
    d = log_prob - ref_log_prob
    return d.exp() - 1 - d


def jensen_shannon(log_prob: torch.Tensor, ref_log_prob: torch.Tensor) -> torch.Tensor:
    """KL(pi || m) + KL(pi_ref || m) with m = (pi + pi_ref) / 2: at most 2 log 2.

        f(u) = u log u - (u + 1) log((u + 1) / 2);   df / d log pi = u log(2 u / (u + 1))

    Source: DPH-JS (Li et al. 2025, arXiv 2509.07430), in generator form as in its code.
    Peers: none
    Twice the Jensen-Shannon divergence. For u near 1 half of `forward_kl`; for u = 0 it is log 2,
    with no gradient left, where `forward_kl` grows without bound.
    """
    d = log_prob - ref_log_prob
    u = d.exp()
    return u * d - (u + 1) * (torch.nn.functional.softplus(d) - math.log(2))
