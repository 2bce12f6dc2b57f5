"""Which training seeds share a pretrained base model, and how a mean over seeds then varies."""

from collections.abc import Iterable, Sequence

import numpy as np

FIRST = 5  # the last seed of the laptop scales themselves; all share one base model
SHARED = 9  # the last seed that shares its base model with another
ACCURACY_SHARE, SHARE = 0.32, 0.55  # of the variance over seeds: for pass@1, for all else


def base_seed(seed: int) -> int:
    """Return the seed with which the base model of a laptop run with `seed` is pretrained."""
    if seed > SHARED:
        return seed
    return 0 if seed <= FIRST else 1 + seed % 2


def base_share(metrics: Iterable[str]) -> float:
    """Return the share of the variance over seeds that is assumed to come from the base model.

    For pass@1 it is the share found for natural pass@1, for everything else the one found for rare
    pass@64. Three base models measure it badly, so the larger of two estimates is used
    (docs/evidence.md)."""
    return ACCURACY_SHARE if set(metrics) == {"pass@1"} else SHARE


def mean_over_bases(means: np.ndarray, bases: Sequence[int], share: float) -> tuple[float, float]:
    """Return the variance of the plain mean of one value per seed, and its degrees of freedom.

    means: (S,), bases: (S,) the base model of each seed. With u the effect of the base model and e
    the effect of the run

        x_s = mu + u_b(s) + e_s      var u = share sigma^2,  var e = (1 - share) sigma^2
        V_st = (1 - share) [s = t] + share [b(s) = b(t)]
        sigma^2 = r' V^-1 r / (S - 1),  r = x - mu_GLS       chi squared with S - 1 df
        var(mean x) = sigma^2 1'V1 / S^2

    If each seed has its own base model this is the usual variance divided by S. If all share one,
    only `share` tells how much base models differ.
    """
    size, group = len(means), np.asarray(bases)
    together = (1 - share) * np.eye(size) + share * (group[:, None] == group[None])
    inverse = np.linalg.inv(together)
    rest = means - (inverse @ means).sum() / inverse.sum()
    variance = rest @ inverse @ rest / (size - 1)
    return float(variance * together.sum() / size**2), size - 1
