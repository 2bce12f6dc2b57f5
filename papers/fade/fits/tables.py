"""Pass@k scaling laws fitted to sample counts of the laptop runs (FADE sec 12, Figs. 6, 11, 13).

The shifted power law is in common/metrics/fits.py. The intervals resample problems, each with the
counts of all its seeds. `measure` writes
<root>/fade/laptop/<table>_{coefficients,laws,budgets}.csv.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize

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
            "laws": law_table(pd.concat([base, last])),
            "budgets": budgets(last).drop(columns="fit"),
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


def coefficients(counts: pd.DataFrame) -> pd.DataFrame:
    """Return a, b, c of the shifted power law with 95 % intervals over problems.

    There is one row for each table, method, benchmark and step; seeds are pooled.
    """
    rows = []
    key = ["table", "method", "benchmark", "step"]
    for which, group in counts.groupby(key, sort=False):
        ks, values = curves(group)
        drawn = resampled_means(values, draws=DRAWS, seed=0)
        fitted = fit_power_law(ks, np.vstack([values.mean(0), drawn]))
        low, high = percentile_interval(fitted[1:])
        row = dict(zip(key, which, strict=True), n_seeds=group["seed"].nunique(), k_max=ks[-1])
        for i, name in enumerate("abc"):
            row |= {name: fitted[0, i], f"{name}_low": low[i], f"{name}_high": high[i]}
        rows.append(row)
    return pd.DataFrame(rows)


def by_seed(counts: pd.DataFrame) -> pd.DataFrame:
    """Return a, b, c of the law for every run and step, as the claims need them.

    Columns: table, method, benchmark, seed, step, a, b, c.
    """
    rows = []
    key = ["table", "method", "benchmark", "seed", "step"]
    for which, group in counts.groupby(key, sort=False):
        ks, values = curves(group)
        a, b, c = fit_power_law(ks, values.mean(0))[0]
        rows.append(dict(zip(key, which, strict=True), a=a, b=b, c=c))
    return pd.DataFrame(rows, columns=[*key, "a", "b", "c"])


def laws(ks: list[int], curve: np.ndarray) -> dict[str, tuple[np.ndarray, float]]:
    """Return law -> (fitted curve, mean squared error), fitted by least squares in pass@k itself.

    power: 1 - a k^-b (Theorem 12.1 at every k); exponential: exp(-a k^-b) (Brown et al. 2024);
    shifted: exp(-a (k + c)^-b), which contains the exponential law, so it cannot be worse.
    """
    k = np.asarray(ks, dtype=float)

    def fit(law) -> np.ndarray:
        starts = [np.log([a, b]) for a in (0.3, 1.0, 3.0) for b in (0.2, 0.6, 1.5)]
        fits = [
            minimize(lambda t: ((law(*np.exp(t)) - curve) ** 2).mean(), s, method="Nelder-Mead")
            for s in starts
        ]
        return law(*np.exp(min(fits, key=lambda one: one.fun).x))

    fitted = {
        "power": fit(lambda a, b: 1 - a * k**-b),
        "exponential": fit(lambda a, b: np.exp(-a * k**-b)),
        "shifted": power_law(k, *fit_power_law(ks, curve)[0]),
    }
    return {name: (value, float(((value - curve) ** 2).mean())) for name, value in fitted.items()}


def law_table(counts: pd.DataFrame) -> pd.DataFrame:
    """Return the error of each law for each table, method and benchmark.

    Columns: table, method, benchmark, law, mse, and at_1, the error at k = 1 (fitted - measured, in
    points). Groups with fewer than four different k are left out.
    """
    rows, key = [], ["table", "method", "benchmark"]
    for which, group in counts.groupby(key, sort=False):
        ks, values = curves(group)
        if len(ks) < 4:
            continue
        mean = values.mean(0)
        for law, (fitted, error) in laws(ks, mean).items():
            row = dict(zip(key, which, strict=True), law=law, mse=error)
            rows.append(row | {"at_1": 100 * (fitted[0] - mean[0])})
    return pd.DataFrame(rows, columns=[*key, "law", "mse", "at_1"])


def budgets(counts: pd.DataFrame) -> pd.DataFrame:
    """Return pass@100 as measured and as predicted from k <= 10 and from k <= 50 (Fig. 11).

    The law is the shifted power law. There is one row for each table, method, benchmark and budget,
    from counts after the last step; counts with n < 100 are left out.
    """
    rows, key = [], ["table", "method", "benchmark"]
    for which, group in counts[counts["n"] >= 100].groupby(key, sort=False):
        ks, values = curves(group)
        mean = values.mean(0)
        for budget in (10, 50):
            inside = [i for i, k in enumerate(ks) if k <= budget]
            fitted = fit_power_law([ks[i] for i in inside], mean[inside])[0]
            row = dict(zip(key, which, strict=True), budget=budget, measured=mean[ks.index(100)])
            rows.append(row | {"predicted": power_law([100], *fitted)[0], "fit": fitted.tolist()})
    return pd.DataFrame(rows, columns=[*key, "budget", "measured", "predicted", "fit"])
