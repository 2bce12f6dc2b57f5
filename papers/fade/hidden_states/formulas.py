"""Hidden states of right and wrong responses, and when a weight change has rank one (FADE Sec.
15.1, 15.2; Fig. 3 left, Tables 10, 11).

The gradient of a token's log-probability at the output head is v x h with v = e_y - pi (V,) and h
(d,) the state that the head reads. Along a unit direction u, h = alpha u + h_perp; with weights A,

    W = sum_i A_i v_i x h_i = (sum_i A_i alpha_i v_i) x u + sum_i A_i v_i x h_perp_i    (Eq. 32)
    r_1 -> ||E[A alpha v]||^2 / (||E[A alpha v]||^2 + ||R||^2),  R = E[A v x h_perp]      (Eq. 33)

which holds if u is the leading right singular vector of G = E[A v x h]. The limit is
s_1(G)^2 / ||G||^2 for any data: Prop. 15.1 says that r_1 converges, and that R keeps it below 1.
Corollary 15.2 is tested on two kinds of synthetic modes. In one the wrong modes' means mu_k =
E[h_perp | mode k] are orthogonal, as the corollary assumes; in the other u_1 leans towards the mean
of the modes, so that they are not. Its last step, that delta < 1 drives r_1 to 1 because q/delta
multiplies a shrinking R_F, does not follow from it (INC077), so r_1 is measured. All functions take
numpy arrays with one row for each token.
"""

from collections.abc import Iterable

import numpy as np


def head_gradient(A: np.ndarray, v: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Return (1/N) sum_i A_i v_i x h_i, (V, d)."""
    return (A[:, None] * v).T @ h / len(h)


def perpendicular(h: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return h_perp = h - (h . u) u for a unit vector u."""
    return h - np.outer(h @ u, u)


def mean_pairwise_cosine(h: np.ndarray, u: np.ndarray | None = None, rows: int = 8192) -> float:
    """Return rho, the mean cosine over all pairs of two different rows.

    rho = (||sum_i h_i/|h_i| ||^2 - N) / (N (N - 1)), with h_i replaced by its part perpendicular to
    `u` if `u` is given. Rows of zeros have no direction and are left out; fewer than two rows give
    NaN. Memory holds `rows` rows at a time in float64.
    """
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
    """Return ||R_g|| = ||(1/N_g) sum_i v_i x h_perp_i||_F of a group g of tokens.

    It has no factor A (footnote of Sec. 15.1). It is NaN for an empty group.
    """
    return float(np.linalg.norm(v.T @ h_perp) / len(h_perp)) if len(h_perp) else np.nan


def weightings(A: np.ndarray, correct: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return the weights w of four sums W = sum_i w_i v_i x h_i, by name.

    "gradient" is the batch gradient (A_i / N). "S" and "F" are the means over right and wrong
    tokens. "few" is the mean over tokens of the larger group, as many as the smaller group has,
    drawn with `seed`. A group without tokens has no sum.
    """
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
    """Return which group, "S" or "F", has more tokens ("F" if they have equally many)."""
    return "F" if 2 * correct.sum() <= len(correct) else "S"


def outer_sums(
    v: Iterable[np.ndarray], h: np.ndarray, weights: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return sum_i w_i v_i x h_i of each weighting, (V, d), in one pass over `v`.

    `v` yields blocks of rows in order, since all of it would take 77 GB for the paper's 63,668
    tokens.
    """
    sums: dict[str, np.ndarray] = {}
    start = 0
    for block in v:
        rows = slice(start, start + len(block))
        block, states = block.astype(np.float64), h[rows].astype(np.float64)
        for name, w in weights.items():
            (at,) = np.nonzero(w[rows])
            part = block[at].T @ (w[rows][at, None] * states[at])
            sums[name] = sums[name] + part if name in sums else part
        start = rows.stop
    return sums


def compare(sums: dict[str, np.ndarray], h: np.ndarray, correct: np.ndarray, u: np.ndarray) -> dict:
    """Compare the tokens of right (S) and wrong (F) responses along a direction u.

    Return rho_perp and the residual norm of each group, the ratio ||R_F||/||R_S||, and its baseline
    sqrt(N_S/N_F) for equal covariances (the paper's CLT baseline). `sums` are the outer sums for
    the weights of `weightings`.

    A ratio above that baseline means that the wrong responses' mean residual is larger than
    independent terms would leave, which is not what Sec. 15.2 concludes from it (INC065).
    `norm_ratio_equal_n` uses equally many tokens of both groups, for which the baseline is 1.
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
    """Return ||W (I - u u^T)||_F, which has h_perp in place of h in each term; NaN without W."""
    if W is None:
        return np.nan
    squares = 0.0
    for start in range(0, len(W), rows):
        squares += np.square(perpendicular(W[start : start + rows].astype(np.float64), u)).sum()
    return float(squares**0.5)


def rank1_limit(A: np.ndarray, v: np.ndarray, h: np.ndarray, u: np.ndarray) -> float:
    """Return the limit of r_1 in Eq. 33, with means over these rows in place of expectations."""
    signal = np.square(((A * (h @ u))[:, None] * v).mean(0)).sum()
    residual = np.square(head_gradient(A, v, perpendicular(h, u))).sum()
    return float(signal / (signal + residual))


# ---- synthetic data


def modes(*, N: int, K: int, delta: float, p: float, d: int, noise: float, seed: int, apart: bool):
    """Draw (A, v, h, correct) of N tokens, each right with probability p.

    h = alpha e_0 + mu + noise; mu is e_1 for right tokens and one of the K directions e_2 ..
    e_{K+1} for wrong ones. v = e_y - pi for V = 8 tokens with equal pi; A is AsymGRPO's, q and
    -p/delta.

    apart=False   alpha = 2, and there is one next token y for all right tokens and one for all
                  wrong ones. u_1 of the gradient leans towards the mean of the modes, so the modes'
                  mu_k are not orthogonal
    apart=True    each outcome has two equally likely next tokens y; alpha is 2 before the first and
                  -2 before the second. Then R^T E[A alpha v] = 0, u_1 is e_0 for every delta and K,
                  and the mu_k = e_{k+1} are orthogonal and equally long (Corollary 15.2)
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
    """Return (A, v, h, mode) of a few rows whose plain means are the expectations of `modes`.

    Their probabilities are part of A. mode is 0 for right tokens, 1 .. K for wrong ones.
    """
    mode, v, h = _means(K, d, apart)
    share = np.where(mode == 0, p, (1 - p) / K) * (1 + K)
    return share * np.where(mode == 0, 1 - p, -p / delta), v, h, mode


def wrong_modes_cosine(h: np.ndarray, mode: np.ndarray, u: np.ndarray) -> float:
    """Return the mean cosine between the mu_k = E[h_perp | mode k] of two wrong modes.

    Corollary 15.2 assumes 0. It is NaN for a single mode.
    """
    h_perp = perpendicular(h, u)
    return mean_pairwise_cosine(
        np.array([h_perp[mode == k].mean(0) for k in range(1, mode.max() + 1)])
    )


def _means(K: int, d: int, apart: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (mode, v, h) without noise for right tokens and for each wrong mode.

    With `apart`, the rows are repeated for the second next token.
    """
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
