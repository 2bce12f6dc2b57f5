"""FADE's closed forms of m_S and m_F (Table 1, from sec 8), as printed, without the factor B.

p is the solve rate and q = 1 - p; the other keyword arguments are those of the advantage of the
same name in common/advantages/. The paper evaluates the forms at the true p and at the group's
p_hat without distinction; masses.py shows where that matters. Two forms depend on our reading of
what the text leaves open, as their docstrings say: `t2t` (its sigma_R) and `ha_dw` (its f is not
printed).
"""

from math import exp, sqrt

Masses = tuple[float, float]


def closed_form(advantage: str, p: float, arguments: dict) -> Masses | None:
    """Return (m_S, m_F) as the paper prints them for the advantage function of that name.

    Return None if the paper prints no form for it.
    """
    formula = FORMS.get(advantage)
    return None if formula is None else formula(p, 1 - p, **arguments)


def reinforce(p, q, **_) -> Masses:
    """Sec 8.9, on log-mean-exp: "As beta -> 0, m_S -> p and m_F -> q (REINFORCE)".

    With rewards 0 and 1 the weight A = r would have m_F = 0, since a failure has no weight. (p, q)
    belongs to A = +1 or -1.
    """
    return p, q


def grpo(p, q, **_) -> Masses:
    """Sec 8.1: sqrt(p q)."""
    return sqrt(p * q), sqrt(p * q)


def skew_r(p, q, **_) -> Masses:
    """Sec 8.1."""
    return p * q * sqrt(p * q), p * q * sqrt(p * q)


def mean_only(p, q, **_) -> Masses:
    """Sec 2.2, Eqs. 4-6."""
    return p * q, p * q


def power_alpha(p, q, *, alpha, normalise, **_) -> Masses:
    """C p q^alpha, with C of Eq. 27 in sec 4.3 and 14, but C = 1 in sec 8.2 and the algorithms."""
    mass = peak(alpha, normalise) * p * q**alpha
    return mass, mass


def easy_power(p, q, *, alpha, normalise, **_) -> Masses:
    """Sec 4.3: C p^alpha q."""
    mass = peak(alpha, normalise) * p**alpha * q
    return mass, mass


def peak(alpha: float, normalise: bool = True) -> float:
    """Return C of Eq. 27, (1 + alpha)^(1 + alpha) / (4 alpha^alpha), or 1 if not `normalise`.

    With it the peak of C p q^alpha is 1/4.
    """
    return (1 + alpha) ** (1 + alpha) / (4 * alpha**alpha) if normalise else 1.0


def asym_power(p, q, *, alpha_s, alpha_f, **_) -> Masses:
    """Sec 8.2 item 2."""
    return p * q**alpha_s, p**alpha_f * q


def asym_grpo(p, q, *, delta, **_) -> Masses:
    """Sec 4.1, sec 8.2 item 3."""
    return p * q, p * q / delta


def fade(p, q, *, alpha, delta, **_) -> Masses:
    """Sec 10."""
    return p * q**alpha, p * q**alpha / delta


def t2t(p, q, *, alpha, **_) -> Masses:
    """Eqs. 12-14: p q C / sigma_R, for responses of full length, where sigma_R = C sqrt(p q)."""
    return sqrt(p * q), sqrt(p * q)


def max_rl(p, q, **_) -> Masses:
    """Sec 8.3."""
    return q, q


def pass_at_k_tang(p, q, *, k, **_) -> Masses:
    """Sec 8.4.1: k p q^(k - 1), a sum over k responses, while the other forms are means."""
    return k * p * q ** (k - 1), 0.0


def pass_at_k_chen(p, q, *, k, **_) -> Masses:
    """Sec 8.4.2, its population limit: p sqrt(q^k / (1 - q^k))."""
    mass = p * sqrt(q**k / (1 - q**k))
    return mass, mass


def pass_at_k_mix(p, q, *, k, **_) -> Masses:
    """Sec 8.4.3: p (p A_pass@k + q A_pass@1), A_pass@k = q^k / sigma_k, A_pass@1 = q / sigma_1."""
    at_k = q**k / sqrt(q**k * (1 - q**k))
    mass = p * (p * at_k + q * q / sqrt(p * q))
    return mass, mass


def asym_rl(p, q, *, delta, **_) -> Masses:
    """Sec 8.5."""
    return p * (q - delta), q * (p + delta)


def quantile(p, q, *, tau, **_) -> Masses:
    """Sec 8.6."""
    return (p, 0.0) if p <= tau else (0.0, q)


def mc_grpo(p, q, **_) -> Masses:
    """Sec 8.6: the median."""
    return quantile(p, q, tau=0.5)


def binary_contrastive(p, q, **_) -> Masses:
    """Sec 8.7."""
    return p, p


def power_norm(p, q, *, gamma, **_) -> Masses:
    """Sec 8.8."""
    return (p * q) ** (1 - gamma), (p * q) ** (1 - gamma)


def softmax(p, q, *, beta, **_) -> Masses:
    """Sec 8.9."""
    mass = (exp(beta) - 1) * p * q / (1 + p * (exp(beta) - 1))
    return mass, mass


def log_mean_exp(p, q, *, beta, **_) -> Masses:
    """Sec 8.9."""
    total = p * exp(beta) + q
    return p * exp(beta) / total, q / total


def ha_dw(p, q, *, anchor, scale, **_) -> Masses:
    """Sec 8.10: f q p and q p. The paper does not print f; exp(C_t - p) of its weight is used."""
    return scale * exp(anchor - p) * p * q, p * q


def relu(p, q, **_) -> Masses:
    """Sec 8.11."""
    return p * q, 0.0


FORMS = {
    form.__name__: form
    for form in (
        reinforce,
        grpo,
        mean_only,
        skew_r,
        power_alpha,
        easy_power,
        asym_power,
        asym_grpo,
        fade,
        t2t,
        max_rl,
        pass_at_k_tang,
        pass_at_k_chen,
        pass_at_k_mix,
        asym_rl,
        quantile,
        mc_grpo,
        binary_contrastive,
        power_norm,
        softmax,
        log_mean_exp,
        ha_dw,
        relu,
    )
}
