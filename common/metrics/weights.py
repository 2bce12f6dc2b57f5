"""The geometry of a weight change W_delta = W_after - W_before (FADE Sec. 4.2, 15; Figs 3, 5).

A matrix is given as a function that yields its blocks of consecutive rows in order each time it is
called, so that at most one block of a large matrix is in memory. Its properties are:

    energy     ||W||_F^2
    s          singular values, largest first
    r1         s_1^2 / ||W||_F^2, the rank-1 fraction (Sec. 4.2)
    s1/s2      Fig. 5
    srank_d    min{k: sum_{i<=k} s_i / sum_i s_i >= 1 - d} (Fig. 5, Kumar et al. 2020)
    u, v       leading left and right singular vectors; their signs are arbitrary

`full` computes every singular value from the Gram matrix of the shorter side. `randomised` computes
the leading ones after Halko, Martinsson and Tropp (2011); `Svd.error` states their error. Which
side the paper subtracts from which (Fig. 5: sft - rl, Sec. 4.2: rl - sft) changes signs only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Blocks = Callable[[], Iterator[np.ndarray]]


@dataclass(frozen=True)
class Svd:
    """Energy, singular values, and the leading vectors u (m,), v (n,) of an m x n matrix.

    complete   whether `s` holds all singular values; without them there is no srank
    error      a true singular value lies within error * s_1 of s_1, and one within error * s_1 of
               s_2
    """

    energy: float
    s: np.ndarray
    u: np.ndarray
    v: np.ndarray
    complete: bool
    error: float

    @property
    def ratio(self) -> float:
        """s_1 / s_2; NaN for a zero matrix or a single row or column, inf for rank 1."""
        if len(self.s) < 2 or self.s[0] == 0:
            return np.nan
        return float(self.s[0] / self.s[1]) if self.s[1] > 0 else np.inf

    @property
    def rank1(self) -> float:
        """r_1; NaN for a zero matrix."""
        return float(self.s[0] ** 2 / self.energy) if self.energy > 0 else np.nan

    def srank(self, delta: float) -> float:
        """Return srank_delta; NaN if not all singular values are known, or if all are 0."""
        total = self.s.sum()
        if not self.complete or total == 0:
            return np.nan
        return float(1 + np.searchsorted(self.s.cumsum() / total, 1 - delta - 1e-12))


def full(blocks: Blocks, *, wide: bool) -> Svd:
    """Return all singular values and the leading vectors, from the eigenvalues of W^T W, or of W
    W^T if W is wide, in float64. Singular values below about 1e-8 s_1 are rounding errors. `wide`:
    whether W has fewer rows than columns.

    Memory: a block of a tall matrix or the whole of a wide one, and four squares of the shorter
    side.
    """
    if wide:
        whole = np.concatenate([*blocks()]).astype(np.float64)
        gram = whole @ whole.T
    else:
        gram = sum(block.T @ block for block in (x.astype(np.float64) for x in blocks()))
    values, vectors = np.linalg.eigh(gram)
    s = np.sqrt(np.maximum(values[::-1], 0.0))
    top = vectors[:, -1] * (s[0] > 0)  # a zero matrix has no direction
    if wide:
        other = sum(block.T @ part for block, part in _aligned(blocks, top))
    else:
        other = np.concatenate([block @ top for block in blocks()])
    other = other / (s[0] or 1.0)
    u, v = (top, other) if wide else (other, top)
    return Svd(float(np.trace(gram)), s, u, v, complete=True, error=0.0)


def randomised(blocks: Blocks, *, rank: int, oversample: int, iterations: int, seed: int) -> Svd:
    """Return the `rank` leading singular values and the first vectors, by subspace iteration on
    W^T W from rank + oversample random directions. It takes iterations + 3 passes over the blocks.

    Memory: a block, and (m + 3 n) (rank + oversample) numbers. The energy is exact. The error is
    ||W^T u_i - s_i v_i|| / s_1, the larger of i = 1, 2: the residual of a pair with W v_i = s_i u_i
    bounds the distance to a singular value.
    """
    squared, columns = 0.0, None
    for block in blocks():
        squared += float(np.square(block, dtype=np.float64).sum())
        columns = block.shape[1]
    width = min(rank + oversample, columns)
    draw = np.random.default_rng(seed).standard_normal((columns, width))
    basis = np.linalg.qr(draw)[0]
    for _ in range(iterations):
        basis = np.linalg.qr(_gram_times(blocks, basis))[0]
    image = np.concatenate([block @ basis for block in blocks()])
    left, s, right = np.linalg.svd(image, full_matrices=False)
    s, v = s[:rank], (basis @ right.T)[:, :rank]
    error = np.nan
    if s[0] > 0:
        back = sum(block.T @ part for block, part in _aligned(blocks, left[:, :2]))
        error = float(np.linalg.norm(back - s[:2] * v[:, :2], axis=0).max() / s[0])
    u, v = left[:, 0] * (s[0] > 0), v[:, 0] * (s[0] > 0)
    return Svd(squared, s, u, v, complete=False, error=error)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Return |cos| of two vectors (Table 12: a singular vector's sign is arbitrary); NaN for 0."""
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(abs(a @ b) / lengths) if lengths > 0 else np.nan


def same_sign(u: np.ndarray) -> float:
    """Return the share of entries with the commoner sign (Sec. 15.1: 99.93-99.97 % of tokens)."""
    return float(max((u > 0).mean(), (u < 0).mean()))


def half_energy(u: np.ndarray) -> float:
    """Return the least share of the entries that holds half of ||u||^2 (Sec. 15.1: about 22 %)."""
    squares = np.sort(np.square(u, dtype=np.float64))[::-1].cumsum()
    return float((1 + np.searchsorted(squares, squares[-1] / 2)) / len(u))


def _gram_times(blocks: Blocks, basis: np.ndarray) -> np.ndarray:
    """Return W^T W basis: products in float32 if the blocks are, sums over blocks in float64."""
    total = np.zeros(basis.shape)
    for block in blocks():
        small = basis.astype(block.dtype)
        total += block.T @ (block @ small)
    return total


def _aligned(blocks: Blocks, left: np.ndarray):
    start = 0
    for block in blocks():
        yield block, left[start : start + len(block)]
        start += len(block)
