"""Pass@k curves from sample counts and the scaling law fitted to them (FADE Sec. 12, Figs. 6, 13).
The intervals resample problems, each with the counts of all its seeds."""

import numpy as np
import pandas as pd

from common.metrics.bootstrap import percentile_interval, resampled_means
from common.metrics.fits import fit_power_law
from common.metrics.passk import pass_at_k

KS = [1, 2, 4, 8, 10, 16, 32, 50, 64, 100]
DRAWS = 200


def curves(counts: pd.DataFrame) -> tuple[list[int], np.ndarray]:
    """Return (the k up to the smallest number of samples, pass@k of each problem (P, K), a mean
    over seeds)."""
    ks = [k for k in KS if k <= counts["n"].min()]
    values = pass_at_k(counts["c"].to_numpy(), counts["n"].to_numpy(), ks)
    frame = pd.DataFrame(values, index=counts["problem_id"].to_numpy())
    return ks, frame.groupby(level=0).mean().to_numpy()


def coefficients(counts: pd.DataFrame) -> pd.DataFrame:
    """Return a, b, c of the shifted power law with 95 % intervals over problems, a row for each
    method and step; seeds are pooled."""
    rows = []
    for (method, step), group in counts.groupby(["method", "step"], sort=False):
        ks, values = curves(group)
        row = {"method": method, "step": step, "n_seeds": group["seed"].nunique(), "k_max": ks[-1]}
        drawn = resampled_means(values, draws=DRAWS, seed=0)
        fitted = fit_power_law(ks, np.vstack([values.mean(0), drawn]))
        low, high = percentile_interval(fitted[1:])
        for i, name in enumerate("abc"):
            row |= {name: fitted[0, i], f"{name}_low": low[i], f"{name}_high": high[i]}
        rows.append(row)
    return pd.DataFrame(rows)
