"""One step of the simulation: sampling, each objective's gradient, the optimisers, the metrics."""

import numpy as np
import torch


def draw(cdf, uniforms):
    """Return actions drawn by inverse CDF, a_j = min{i : u_j cdf_A < cdf_i}: cdf (S, A), not
    necessarily normalised, uniforms (S, N) -> indices (S, N), in no particular order."""
    # numpy sorts, and searches sorted keys, several times faster than torch
    scaled = np.sort((uniforms * cdf[:, -1:]).numpy(), axis=1)
    rows = zip(cdf.numpy(), scaled, strict=True)
    index = torch.from_numpy(np.stack([np.searchsorted(c, u, side="right") for c, u in rows]))
    return index.clamp_(max=cdf.shape[1] - 1)  # u * cdf_A may round up to cdf_A


def gradient(counts, p, *, objective: str, correct: int, R_c: float, R_w: float, gamma: float):
    """Return the gradient of the objective in the logits, (S, A), from p and the sample's counts,
    (S, A) each.

    With X correct among N samples, mu = X/N (Eq. 14), Rbar = R_w + (R_c - R_w) mu,
    g = (1 - mu)^gamma, c_a the count of action a and r~_a = R_a - Rbar:

    - printed (App. J), L = g/N sum_j r~_j p_j:      dL/dz_a = g/N p_a (c_a r~_a - sum_j r~_j p_j)
    - score,            L = g/N sum_j r~_j log p_j:  dL/dz_a = g/N c_a r~_a
      (its other term, -p_a sum_j r~_j, is zero because r~ sums to zero)
    - eq7 (Eq. 7), distinct samples, P_pos and P_neg their masses, S_R = R_c P_pos + R_w P_neg:
                                                     g/N p_a (R_a [c_a > 0] - S_R)

    For a sample that is all correct or all wrong, the first two gradients are zero; eq7's is not.
    `counts` is overwritten: at this size a new array in each step costs more than the arithmetic.
    """
    N = counts.sum(1, keepdim=True)
    mu = counts[:, :correct].sum(1, keepdim=True) / N
    scale = (1 - mu) ** gamma / N
    if objective == "eq7":
        hit = counts.clamp_(max=1)
        hit[:, :correct] *= R_c
        hit[:, correct:] *= R_w
        return hit.sub_((hit * p).sum(1, keepdim=True)).mul_(p).mul_(scale)
    baseline = R_w + (R_c - R_w) * mu
    counts[:, :correct] *= scale * (R_c - baseline)
    counts[:, correct:] *= scale * (R_w - baseline)
    if objective == "printed":
        counts *= p
        counts -= p * counts.sum(1, keepdim=True)
    return counts


def ascend(
    z, grad, m, v, step: int, *, optimizer: str, lr: float, betas, eps: float, weight_decay: float
):
    """Take one ascent step on z, in place. m and v are Adam's moments, updated in place; `step`
    counts from 1; grad may be overwritten.

    sgd: z += lr grad. adam: z += lr mhat / (sqrt(vhat) + eps). adamw: z *= 1 - lr weight_decay,
    then the step of adam.
    """
    if optimizer == "sgd":
        z.add_(grad, alpha=lr)
        return
    beta1, beta2 = betas
    if optimizer == "adamw":
        z.mul_(1 - lr * weight_decay)
    m.lerp_(grad, 1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    # torch's square root is five times slower at zero; 1e-36 is negligible beside eps
    denominator = grad.copy_(v).add_(1e-36).sqrt_().mul_((1 - beta2**step) ** -0.5).add_(eps)
    z.addcdiv_(m, denominator, value=lr / (1 - beta1**step))


def metrics(p, p_0) -> dict:
    """Return Q_pos, M_ret and entropy (nats) of one policy, all in float64.

    p is (A,); p_0 (correct,) holds the initial probabilities of the correct actions. Q_pos = sum_{a
    correct} p(a) (Eq. 6); M_ret = 1 - sum_{a correct} max(0, p_0(a) - p(a)) / sum_{a correct}
    p_0(a) (Eq. 26).
    """
    kept = p[: len(p_0)]
    return {
        "Q_pos": kept.sum().item(),
        "M_ret": 1 - ((p_0 - kept).clamp(min=0).sum() / p_0.sum()).item(),
        "entropy": -(p @ p.clamp(min=1e-300).log()).item(),
    }
