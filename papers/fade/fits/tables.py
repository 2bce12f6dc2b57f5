"""Pass@k scaling laws fitted to sample counts of the laptop runs (FADE sec 12, Figs. 6, 11, 13).

The shifted power law is in common/metrics/fits.py. The intervals resample problems, each with the
counts of all its seeds. `measure` writes
<root>/fade/laptop/<table>_{coefficients,budgets}.csv.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison.gather import LAPTOP, read
from common.metrics.bootstrap import percentile_interval, resampled_means
from common.metrics.fits import fit_power_law, power_law
from common.metrics.passk import pass_at_k
from common.results.files import write_csv
from papers.fade.theory.scaling import KS

METHODS = ("GRPO", "mean GRPO", "Power (alpha=2)", "AsymGRPO (delta=0.5)", "FADE")
DRAWS = 200


def measure(root: Path) -> None:
    """Fit the laws to the counts of every table that holds one of METHODS, and write the fits."""
    rows, counts = read(root, "fade", LAPTOP)
    for table in rows.loc[rows["method"].isin(METHODS), "table"].unique():
        base, trained = of_table(counts, table)
        if base.empty or trained.empty:
            continue
        last = trained[trained["step"] == trained["step"].max()]
        fits = {
            "coefficients": coefficients(pd.concat([base, trained])),
            "budgets": budgets(last).drop(columns="fit", errors="ignore"),
        }
        for name, fit in fits.items():
            if len(fit):
                write_csv(root / "fade" / LAPTOP / f"{table}_{name}.csv", fit)


def of_table(counts: pd.DataFrame, table: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return (counts of the base model, where all methods start; counts of METHODS in a table)."""
    base = counts[counts["method"] == "base"].assign(table=table)
    return base, counts[(counts["table"] == table) & counts["method"].isin(METHODS)]


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


def by_seed(counts: pd.DataFrame) -> pd.DataFrame:
    """Return table, method, benchmark, seed, step and b of the law for every run and step, as the
    claims need them."""
    return pd.DataFrame(
        row | {"b": fit_power_law(ks, values.mean(0))[0, 1]}
        for row, ks, values in groups(counts, "seed", "step")
    )


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
