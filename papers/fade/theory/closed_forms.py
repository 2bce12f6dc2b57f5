"""FADE's closed forms of m_S and m_F (Table 1, from sec 8), as printed, without the factor B.

p is the solve rate and q = 1 - p; the other arguments are those of the advantage of the same name
in common/advantages/. The paper evaluates the forms at the true p and at the group's p_hat without
distinction; masses.py shows where that matters. Two forms depend on our reading of what the text
leaves open: `t2t` (its sigma_R) and `ha_dw` (its f is not printed).
"""

from collections.abc import Callable
from math import exp, sqrt

Masses = tuple[float, float]


def closed_form(advantage: str, p: float, arguments: dict) -> Masses | None:
    """Return (m_S, m_F) as the paper prints them for the advantage of that name, or None."""
    if advantage in BALANCED:
        mass = BALANCED[advantage](p, 1 - p, **arguments)
        return mass, mass
    return FORMS[advantage](p, 1 - p, **arguments) if advantage in FORMS else None


def peak(alpha: float, normalise: bool = True) -> float:
    """Return C of Eq. 27, (1 + alpha)^(1 + alpha) / (4 alpha^alpha), with which the peak of C p
    q^alpha is 1/4, or 1 if not `normalise`."""
    return (1 + alpha) ** (1 + alpha) / (4 * alpha**alpha) if normalise else 1.0


def mix(p: float, q: float, k: int) -> float:
    """Return p (p A_pass@k + q A_pass@1), A_pass@k = q^k / sigma_k, A_pass@1 = q / sigma_1."""
    at_k = q**k / sqrt(q**k * (1 - q**k))
    return p * (p * at_k + q * q / sqrt(p * q))


BALANCED: dict[str, Callable[..., float]] = {  # m_S = m_F
    "grpo": lambda p, q, **_: sqrt(p * q),  # sec 8.1
    "skew_r": lambda p, q, **_: p * q * sqrt(p * q),  # sec 8.1
    "mean_only": lambda p, q, **_: p * q,  # sec 2.2, Eqs. 4-6
    # C of Eq. 27 is in sec 4.3 and 14; in sec 8.2 and the algorithms C = 1
    "power_alpha": lambda p, q, alpha, normalise: peak(alpha, normalise) * p * q**alpha,
    "easy_power": lambda p, q, alpha, normalise: peak(alpha, normalise) * p**alpha * q,  # sec 4.3
    # Eqs. 12-14: p q C / sigma_R, for responses of full length, where sigma_R = C sqrt(p q)
    "t2t": lambda p, q, **_: sqrt(p * q),
    "max_rl": lambda p, q, **_: q,  # sec 8.3
    # sec 8.4.2, its population limit
    "pass_at_k_chen": lambda p, q, k, **_: p * sqrt(q**k / (1 - q**k)),
    "pass_at_k_mix": lambda p, q, k, **_: mix(p, q, k),  # sec 8.4.3
    "binary_contrastive": lambda p, q, **_: p,  # sec 8.7
    "power_norm": lambda p, q, gamma, **_: (p * q) ** (1 - gamma),  # sec 8.8
    # sec 8.9
    "softmax": lambda p, q, beta, **_: (exp(beta) - 1) * p * q / (1 + p * (exp(beta) - 1)),
}
FORMS: dict[str, Callable[..., Masses]] = {
    # sec 8.9, on log-mean-exp: "As beta -> 0, m_S -> p and m_F -> q (REINFORCE)". With rewards 0
    # and 1 the weight A = r would have m_F = 0, since a failure has no weight. (p, q) belongs to
    # A = +1 or -1.
    "reinforce": lambda p, q, **_: (p, q),
    "asym_power": lambda p, q, alpha_s, alpha_f: (p * q**alpha_s, p**alpha_f * q),  # sec 8.2 item 2
    "asym_grpo": lambda p, q, delta, **_: (p * q, p * q / delta),  # sec 4.1, sec 8.2 item 3
    "fade": lambda p, q, alpha, delta, **_: (p * q**alpha, p * q**alpha / delta),  # sec 10
    # sec 8.4.1: a sum over k responses, while the other forms are means
    "pass_at_k_tang": lambda p, q, k, **_: (k * p * q ** (k - 1), 0.0),
    "asym_rl": lambda p, q, delta, **_: (p * (q - delta), q * (p + delta)),  # sec 8.5
    "quantile": lambda p, q, tau, **_: (p, 0.0) if p <= tau else (0.0, q),  # sec 8.6
    "log_mean_exp": lambda p, q, beta, **_: (
        p * exp(beta) / (p * exp(beta) + q),
        q / (p * exp(beta) + q),
    ),  # sec 8.9
    # sec 8.10: f q p and q p; exp(C_t - p) of its weight is used for f
    "ha_dw": lambda p, q, anchor, scale, **_: (scale * exp(anchor - p) * p * q, p * q),
    "relu": lambda p, q, **_: (p * q, 0.0),  # sec 8.11
}
