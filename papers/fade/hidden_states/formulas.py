"""Hidden states of right and wrong responses, and when a weight change is of rank one (FADE Sec.
15.1, 15.2; Fig. 3 left, Tables 10, 11).

The gradient of a token's log-probability at the output head is v x h with v = e_y - pi (V,) and h
(d,) the state that the head reads. Along a unit direction u, h = alpha u + h_perp; with weights A,

    W = sum_i A_i v_i x h_i = (sum_i A_i alpha_i v_i) x u + sum_i A_i v_i x h_perp_i    (Eq. 32)
    r_1 -> ||E[A alpha v]||^2 / (||E[A alpha v]||^2 + ||R||^2),  R = E[A v x h_perp]      (Eq. 33)

which holds where u is the leading right singular vector of G = E[A v x h]. The limit is
s_1(G)^2 / ||G||^2, whatever the data: Prop. 15.1 says that r_1 converges, and that R is what keeps
it below 1. Corollary 15.2 is tested on made-up modes twice: with wrong modes whose mu_k =
E[h_perp | mode k] are orthogonal, which it supposes, and where u_1 leans towards the modes' mean,
so that they are not. Its last step, that delta < 1 drives r_1 to 1 because q/delta multiplies a
shrinking R_F, does not follow from it (INC077), so r_1 is measured. All functions are of numpy
arrays, one row a token.
"""

from collections.abc import Iterable

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


def mean_pairwise_cosine(h: np.ndarray, u: np.ndarray | None = None, rows: int = 8192) -> float:
    """rho: the mean cosine over all pairs of two different rows, (||sum_i h_i/|h_i| ||^2 - N) /
    (N (N - 1)), of what is perpendicular to `u` where it is given. Rows of zeros have no direction
    and are left out; NaN with fewer than two. `rows` at a time are in memory, in float64."""
    total, count = np.zeros(h.shape[1]), 0
    for start in range(0, len(h), rows):
        part = h[start : start + rows].astype(np.float64)
        part = part if u is None else perpendicular(part, u)
        lengths = np.linalg.norm(part, axis=1)
        total += (part[lengths > 0] / lengths[lengths > 0, None]).sum(0)
        count += int((lengths > 0).sum())
    if count < 2:
        return np.nan
    return float((np.square(total).sum() - count) / (count * (count - 1)))


def residual_norm(v: np.ndarray, h_perp: np.ndarray) -> float:
    """||R_g|| = ||(1/N_g) sum_i v_i x h_perp_i||_F of a group g; no A (footnote of Sec. 15.1)."""
    return float(np.linalg.norm(v.T @ h_perp) / len(h_perp)) if len(h_perp) else np.nan


def weightings(A: np.ndarray, correct: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The weights w of four sums W = sum_i w_i v_i x h_i: the batch gradient (A_i / N), the means
    over right (S) and wrong (F) tokens, and over as many of the larger group, drawn by seed, as the
    smaller has ("few"). A group without tokens has no sum."""
    groups = {"S": np.flatnonzero(correct), "F": np.flatnonzero(~correct)}
    rng, size = np.random.default_rng(seed), min(map(len, groups.values()))
    drawn = {name: rng.choice(rows, size, replace=False) for name, rows in groups.items()}
    groups["few"] = drawn[larger(correct)]
    sums = {"gradient": A / len(A)}
    for name, rows in groups.items():
        if len(rows):
            sums[name] = np.zeros(len(A))
            sums[name][rows] = 1 / len(rows)
    return sums


def larger(correct: np.ndarray) -> str:
    """Which group has more tokens."""
    return "F" if 2 * correct.sum() <= len(correct) else "S"


def outer_sums(
    v: Iterable[np.ndarray], h: np.ndarray, weights: dict[str, np.ndarray], dtype: str = "float64"
) -> dict[str, np.ndarray]:
    """sum_i w_i v_i x h_i of each weighting, (V, d), in one pass over `v`, blocks of rows in order:
    all of it would be 77 GB for the paper's 63,668 tokens."""
    sums: dict[str, np.ndarray] = {}
    start = 0
    for block in v:
        rows = slice(start, start + len(block))
        block, states = block.astype(dtype, copy=False), h[rows].astype(dtype, copy=False)
        for name, w in weights.items():
            (at,) = np.nonzero(w[rows])
            part = block[at].T @ (w[rows][at, None].astype(dtype) * states[at])
            sums[name] = sums[name] + part if name in sums else part
        start = rows.stop
    return sums


def compare(sums: dict[str, np.ndarray], h: np.ndarray, correct: np.ndarray, u: np.ndarray) -> dict:
    """rho_perp of the tokens of right (S) and wrong (F) responses, their residual norms, and the
    ratio ||R_F||/||R_S|| beside the sqrt(N_S/N_F) of equal covariances (the paper's CLT baseline).
    `sums` are those of `weightings`.

    A ratio above that baseline means that the wrong responses' mean residual is larger than
    independent terms would leave, which is not what Sec. 15.2 concludes from it (INC065).
    `norm_ratio_equal_n` takes as many tokens of either, where the baseline is 1.
    """
    groups = {"S": correct, "F": ~correct}
    numbers = {f"n_{name}": int(rows.sum()) for name, rows in groups.items()}
    for name, rows in groups.items():
        numbers[f"rho_{name}"] = mean_pairwise_cosine(h[rows], u)
        numbers[f"norm_{name}"] = _perpendicular_norm(sums.get(name), u)
    few = {name: numbers[f"norm_{name}"] for name in groups}
    few[larger(correct)] = _perpendicular_norm(sums.get("few"), u)
    with np.errstate(invalid="ignore", divide="ignore"):
        numbers["rho_ratio"] = float(np.divide(numbers["rho_S"], numbers["rho_F"]))
        numbers["norm_ratio"] = float(np.divide(numbers["norm_F"], numbers["norm_S"]))
        numbers["clt_ratio"] = float(np.sqrt(np.divide(numbers["n_S"], numbers["n_F"])))
        numbers["norm_ratio_equal_n"] = float(np.divide(few["F"], few["S"]))
    return numbers


def _perpendicular_norm(W: np.ndarray | None, u: np.ndarray, rows: int = 8192) -> float:
    """||W (I - u u^T)||_F: h_perp in place of h in each of its terms. NaN without W."""
    if W is None:
        return np.nan
    squares = 0.0
    for start in range(0, len(W), rows):
        squares += np.square(perpendicular(W[start : start + rows].astype(np.float64), u)).sum()
    return float(squares**0.5)


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


def modes(*, N: int, K: int, delta: float, p: float, d: int, noise: float, seed: int, apart: bool):
    """(A, v, h, correct) of N tokens, of which a share p is right.

    h = alpha e_0 + mu + noise; mu is e_1 for right tokens and one of the K directions e_2 ..
    e_{K+1} for wrong ones. v = e_y - pi of V = 8 tokens with equal pi, A is AsymGRPO's, q and
    -p/delta.

    apart=False   alpha = 2, one y for all that is right and one for all that is wrong. u_1 of the
                  gradient leans towards the modes' mean, so their mu_k are not orthogonal
    apart=True    each outcome has two next tokens y of equal chance, alpha is 2 before the first
                  and -2 before the second. Then R^T E[A alpha v] = 0, u_1 is e_0 for every delta
                  and K, and the mu_k = e_{k+1} are orthogonal and of one length (Corollary 15.2)
    """
    rng = np.random.default_rng(seed)
    correct = rng.random(N) < p
    mode = np.where(correct, 0, 1 + rng.integers(K, size=N))
    second = rng.integers(2, size=N) if apart else 0
    _, v, h = _means(K, d, apart)
    row = mode + (1 + K) * second
    h = h[row] + noise * rng.standard_normal((N, d))
    return np.where(correct, 1 - p, -p / delta), v[row], h, correct


def expectation(*, K: int, delta: float, p: float, d: int, apart: bool):
    """(A, v, h, mode) of few rows whose plain means are the expectations of `modes`: their
    probabilities are in A. mode is 0 for right tokens, 1 .. K for wrong ones."""
    mode, v, h = _means(K, d, apart)
    share = np.where(mode == 0, p, (1 - p) / K) * (1 + K)
    return share * np.where(mode == 0, 1 - p, -p / delta), v, h, mode


def wrong_modes_cosine(h: np.ndarray, mode: np.ndarray, u: np.ndarray) -> float:
    """Mean cosine of two wrong modes' mu_k = E[h_perp | mode k]: 0 is Corollary 15.2's hypothesis;
    NaN for one mode."""
    h_perp = perpendicular(h, u)
    return mean_pairwise_cosine(
        np.array([h_perp[mode == k].mean(0) for k in range(1, mode.max() + 1)])
    )


def _means(K: int, d: int, apart: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mode, v, h) of each kind of token: right and each wrong mode; with `apart` those once more
    for the second next token."""
    mode = np.arange(1 + K)
    h, v = np.zeros((1 + K, d)), np.full((1 + K, 8), -1 / 8)
    h[:, 0] = 2
    h[mode, 1 + mode] = 1
    v[0, 0] += 1
    v[1:, 1] += 1
    if not apart:
        return mode, v, h
    return (
        np.tile(mode, 2),
        np.concatenate([v, np.roll(v, 2, axis=1)]),
        np.concatenate([h, h * ([-1] + [1] * (d - 1))]),
    )
