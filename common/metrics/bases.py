"""Which training seeds share a pretrained base model, and what that does to a mean over seeds."""

from collections.abc import Iterable, Sequence

import numpy as np

FIRST = 5  # seeds of the laptop scales themselves, all from one base model
SHARED = 9  # the last seed that shares its base model with another
ACCURACY_SHARE, SHARE = 0.32, 0.55  # of the variance over seeds: of pass@1, of all else


def base_seed(seed: int) -> int:
    """The seed that the base model of a laptop run's seed is pretrained with."""
    if seed > SHARED:
        return seed
    return 0 if seed <= FIRST else 1 + seed % 2


def base_share(metrics: Iterable[str]) -> float:
    """The share of the variance over seeds that is taken to come from the base model: of pass@1
    the share that natural pass@1 was found to have, of everything else that of rare pass@64. Three
    base models measure it badly, and the larger of two estimates is used (docs/evidence.md)."""
    return ACCURACY_SHARE if set(metrics) == {"pass@1"} else SHARE


def mean_over_bases(means: np.ndarray, bases: Sequence[int], share: float) -> tuple[float, float]:
    """The variance of the plain mean of one value a seed, and its degrees of freedom.

    means: (S,), bases: (S,) the base model of each. With u of the base and e of the run

        x_s = mu + u_b(s) + e_s      var u = share sigma^2,  var e = (1 - share) sigma^2
        V_st = (1 - share) [s = t] + share [b(s) = b(t)]
        sigma^2 = r' V^-1 r / (S - 1),  r = x - mu_GLS       chi squared with S - 1 df
        var(mean x) = sigma^2 1'V1 / S^2

    Where each seed has its own base this is the usual variance over S. Where all share one, what
    bases differ by is known from `share` alone.
    """
    size, group = len(means), np.asarray(bases)
    together = (1 - share) * np.eye(size) + share * (group[:, None] == group[None])
    inverse = np.linalg.inv(together)
    rest = means - (inverse @ means).sum() / inverse.sum()
    variance = rest @ inverse @ rest / (size - 1)
    return float(variance * together.sum() / size**2), size - 1
