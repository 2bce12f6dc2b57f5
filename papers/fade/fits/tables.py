"""Pass@k scaling laws fitted to sample counts (FADE sec 12, Figs. 6, 11, 13).

The shifted power law is in common/metrics/fits.py. The intervals resample problems, each with the
counts of all its seeds.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from common.metrics.bootstrap import percentile_interval, resampled_means
from common.metrics.fits import fit_power_law, power_law
from common.metrics.passk import pass_at_k
from papers.fade.theory.scaling import KS

DRAWS = 200


def curves(counts: pd.DataFrame) -> tuple[list[int], np.ndarray]:
    """Return (the k up to the smallest number of samples, pass@k of each problem (P, K)).

    pass@k is a mean over seeds.
    """
    ks = [k for k in KS if k <= counts["n"].min()]
    values = pass_at_k(counts["c"].to_numpy(), counts["n"].to_numpy(), ks)
    frame = pd.DataFrame(values, index=counts["problem_id"].to_numpy())
    return ks, frame.groupby(level=0).mean().to_numpy()


def groups(counts: pd.DataFrame, *more: str) -> Iterator[tuple[dict, list[int], np.ndarray]]:
    """Yield (its names, `curves`) of each table, method, benchmark and `more`."""
    key = ["table", "method", "benchmark", *more]
    for which, group in counts.groupby(key, sort=False):
        yield dict(zip(key, which, strict=True)), *curves(group)


def coefficients(counts: pd.DataFrame) -> pd.DataFrame:
    """Return a, b, c of the shifted power law with 95 % intervals over problems.

    There is one row for each table, method, benchmark and step; seeds are pooled.
    """
    seeds = counts.groupby(["table", "method", "benchmark", "step"])["seed"].nunique()
    rows = []
    for row, ks, values in groups(counts, "step"):
        row |= {"n_seeds": seeds[tuple(row.values())], "k_max": ks[-1]}
        drawn = resampled_means(values, draws=DRAWS, seed=0)
        fitted = fit_power_law(ks, np.vstack([values.mean(0), drawn]))
        low, high = percentile_interval(fitted[1:])
        for i, name in enumerate("abc"):
            row |= {name: fitted[0, i], f"{name}_low": low[i], f"{name}_high": high[i]}
        rows.append(row)
    return pd.DataFrame(rows)


def budgets(counts: pd.DataFrame) -> pd.DataFrame:
    """Return pass@100 as measured and as predicted from k <= 10 and from k <= 50 (Fig. 11).

    The law is the shifted power law. There is one row for each table, method, benchmark and budget,
    from counts after the last step; counts with n < 100 are left out.
    """
    rows = []
    for row, ks, values in groups(counts[counts["n"] >= 100]):
        mean = values.mean(0)
        for budget in (10, 50):
            inside = [i for i, k in enumerate(ks) if k <= budget]
            fitted = fit_power_law([ks[i] for i in inside], mean[inside])[0]
            found = {"budget": budget, "measured": mean[ks.index(100)]}
            found |= {"predicted": power_law([100], *fitted)[0], "fit": fitted.tolist()}
            rows.append(row | found)
    return pd.DataFrame(rows)
