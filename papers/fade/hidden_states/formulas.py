"""Hidden states of right and wrong responses (FADE Sec. 15.1, 15.2; Fig. 3 left, Tables 10, 11).

The gradient of a token's log-probability at the output head is v x h with v = e_y - pi (V,) and h
(d,) the state that the head reads. Along a unit direction u, h = alpha u + h_perp; with weights A,

    W = sum_i A_i v_i x h_i = (sum_i A_i alpha_i v_i) x u + sum_i A_i v_i x h_perp_i    (Eq. 32)

Arrays have one row for each token.
"""

from collections.abc import Iterable

import numpy as np


def perpendicular(h: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return h_perp = h - (h . u) u for a unit vector u."""
    return h - np.outer(h @ u, u)


def mean_pairwise_cosine(h: np.ndarray, u: np.ndarray, rows: int = 8192) -> float:
    """Return rho_perp, the mean cosine over all pairs of two different rows of h_perp.

        rho = (||sum_i h_i/|h_i| ||^2 - N) / (N (N - 1)) for the parts h_i perpendicular to `u`

    Rows of zeros have no direction and are left out; fewer than two rows give NaN. Memory holds
    `rows` rows at a time in float64.
    """
    total, count = np.zeros(h.shape[1]), 0
    for start in range(0, len(h), rows):
        part = perpendicular(h[start : start + rows].astype(np.float64), u)
        lengths = np.linalg.norm(part, axis=1)
        total += (part[lengths > 0] / lengths[lengths > 0, None]).sum(0)
        count += int((lengths > 0).sum())
    if count < 2:
        return np.nan
    return float((np.square(total).sum() - count) / (count * (count - 1)))


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
    return "F" if 2 * correct.sum() <= len(correct) else "S"


def outer_sums(
    v: Iterable[np.ndarray], h: np.ndarray, weights: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return sum_i w_i v_i x h_i of each weighting, (V, d), in one pass over `v`, which yields
    blocks of rows: all of it would take 77 GB for the paper's 63,668 tokens."""
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
