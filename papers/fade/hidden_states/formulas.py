"""Hidden states of right and wrong responses, and when a weight change is of rank one (FADE Sec.
15.1, 15.2; Fig. 3 left, Tables 10, 11).

The gradient of a token's log-probability at the output head is v x h with v = e_y - pi (V,) and h
(d,) the state that the head reads. Along a unit direction u, h = alpha u + h_perp; with weights A,

    W = sum_i A_i v_i x h_i = (sum_i A_i alpha_i v_i) x u + sum_i A_i v_i x h_perp_i    (Eq. 32)
    r_1 -> ||E[A alpha v]||^2 / (||E[A alpha v]||^2 + ||R||^2),  R = E[A v x h_perp]      (Eq. 33)

which holds where u is the leading right singular vector of G = E[A v x h]. The limit is
s_1(G)^2 / ||G||^2, whatever the data: Prop. 15.1 says that r_1 converges, and that R is what keeps
it below 1. Corollary 15.2's 1/sqrt(K) is tested on made-up modes; its last step, that delta < 1
drives r_1 to 1 because q/delta multiplies a shrinking R_F, does not follow from it (INC077), so r_1
is measured. All functions are of numpy arrays, one row a token.
"""

import numpy as np


def leading_direction(matrix: np.ndarray) -> np.ndarray:
    """Its leading right singular vector."""
    return np.linalg.svd(matrix, full_matrices=False)[2][0]


def head_gradient(A: np.ndarray, v: np.ndarray, h: np.ndarray) -> np.ndarray:
    """(1/N) sum_i A_i v_i x h_i, (V, d)."""
    return (A[:, None] * v).T @ h / len(h)


def perpendicular(h: np.ndarray, u: np.ndarray) -> np.ndarray:
    """h_perp = h - (h . u) u for a unit vector u."""
    return h - np.outer(h @ u, u)


def mean_pairwise_cosine(h: np.ndarray) -> float:
    """rho: the mean cosine over all pairs of two different rows, (||sum_i h_i/|h_i| ||^2 - N) /
    (N (N - 1)). Rows of zeros have no direction and are left out; NaN with fewer than two."""
    lengths = np.linalg.norm(h, axis=1)
    unit = h[lengths > 0] / lengths[lengths > 0, None]
    count = len(unit)
    if count < 2:
        return np.nan
    return float((np.square(unit.sum(0)).sum() - count) / (count * (count - 1)))


def residual_norm(v: np.ndarray, h_perp: np.ndarray) -> float:
    """||R_g|| = ||(1/N_g) sum_i v_i x h_perp_i||_F of a group g; no A (footnote of Sec. 15.1)."""
    return float(np.linalg.norm(v.T @ h_perp) / len(h_perp)) if len(h_perp) else np.nan


def compare(v: np.ndarray, h: np.ndarray, correct: np.ndarray, u: np.ndarray, seed: int) -> dict:
    """rho_perp of the tokens of right (S) and wrong (F) responses, their residual norms, and the
    ratio ||R_F||/||R_S|| beside the sqrt(N_S/N_F) of equal covariances (the paper's CLT baseline).

    A ratio above that baseline means that the wrong responses' mean residual is larger than
    independent terms would leave, which is not what Sec. 15.2 concludes from it (INC065).
    `ratio_equal_n` takes as many tokens of either, drawn by seed, where the baseline is 1.
    """
    h_perp = perpendicular(h, u)
    S, F = np.flatnonzero(correct), np.flatnonzero(~correct)
    numbers = {"n_S": len(S), "n_F": len(F)}
    for name, rows in (("S", S), ("F", F)):
        numbers[f"rho_{name}"] = mean_pairwise_cosine(h_perp[rows])
        numbers[f"norm_{name}"] = residual_norm(v[rows], h_perp[rows])
    with np.errstate(invalid="ignore", divide="ignore"):
        numbers["rho_ratio"] = float(np.divide(numbers["rho_S"], numbers["rho_F"]))
        numbers["norm_ratio"] = float(np.divide(numbers["norm_F"], numbers["norm_S"]))
        numbers["clt_ratio"] = float(np.sqrt(np.divide(len(S), len(F))))
    rng, few = np.random.default_rng(seed), min(len(S), len(F))
    S, F = rng.choice(S, few, replace=False), rng.choice(F, few, replace=False)
    norms = [residual_norm(v[rows], h_perp[rows]) for rows in (S, F)]
    numbers["norm_ratio_equal_n"] = norms[1] / norms[0] if few else np.nan
    return numbers


def rank1(gradient: np.ndarray) -> float:
    """r_1 = s_1^2 / ||W||_F^2."""
    s = np.linalg.svd(gradient, compute_uv=False)
    return float(s[0] ** 2 / np.square(s).sum())


def rank1_limit(A: np.ndarray, v: np.ndarray, h: np.ndarray, u: np.ndarray) -> float:
    """Eq. 33 with the means over these rows in place of expectations."""
    signal = np.square(((A * (h @ u))[:, None] * v).mean(0)).sum()
    residual = np.square(head_gradient(A, v, perpendicular(h, u))).sum()
    return float(signal / (signal + residual))


# ---- made-up data


def modes(*, N: int, K: int, delta: float, p: float, d: int, noise: float, seed: int):
    """(A, v, h, correct) of N tokens, of which a share p is right.

    h = 2 e_0 + mu + noise; mu is e_1 for right tokens and one of the K orthogonal directions e_2 ..
    e_{K+1} for wrong ones (Corollary 15.2). v = e_y - pi with one y for all that is right and one
    for all that is wrong, of V = 8. A is AsymGRPO's, q and -p/delta.
    """
    rng = np.random.default_rng(seed)
    correct = rng.random(N) < p
    mode = np.where(correct, 0, 1 + rng.integers(K, size=N))
    v, h = _means(K, d)
    h = h[mode] + noise * rng.standard_normal((N, d))
    return np.where(correct, 1 - p, -p / delta), v[mode], h, correct


def expectation(*, K: int, delta: float, p: float, d: int):
    """(A, v, h) of 1 + K rows, right tokens and each wrong mode, whose plain means are the
    expectations of `modes`: their probabilities are in A."""
    share = np.array([p, *[(1 - p) / K] * K]) * (1 + K)
    return share * np.array([1 - p, *[-p / delta] * K]), *_means(K, d)


def _means(K: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    h, v = np.zeros((1 + K, d)), np.full((1 + K, 8), -1 / 8)
    h[:, 0] = 2
    h[np.arange(1 + K), 1 + np.arange(1 + K)] = 1
    v[0, 0] += 1
    v[1:, 1] += 1
    return v, h
