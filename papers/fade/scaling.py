"""Pass@k scaling (FADE sec 12): Theorem 12.1 on known densities, fits of the laptop runs' counts.

The theory is written by theory.py to <results_dir>/fade/theory/; what is fitted to counts by
scaling_figures.py to <results_dir>/fade/laptop/. Laws and mixtures are those of
common/metrics/fits.py; intervals draw problems anew, with the seeds' counts of a problem together.
"""

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import betaln, gammaln, logsumexp

from common.metrics.bootstrap import percentile_interval, resampled_means
from common.metrics.fits import fit_power_law, power_law
from common.metrics.passk import pass_at_k

KS = [1, 2, 4, 8, 10, 16, 32, 50, 64, 100]
BETAS = [(0.3, 1.0), (0.5, 2.0), (1.0, 3.0), (2.0, 5.0)]  # Beta(b, second): p^(b - 1) near 0
DRAWS = 200


def theorem_12_1(ks: np.ndarray | None = None) -> pd.DataFrame:
    """1 - pass@k by k: exact, the theorem's asymptote, their ratio, and the slope in log-log.

    Power law: p ~ Beta(b, s), whose density is C p^(b - 1) (1 + O(p)), C = 1 / B(b, s), so
    1 - pass@k = B(b, s + k) / B(b, s) -> C Gamma(b) k^-b. Rapid decay: density ~ exp(-c / p), where
    the slope, -d log(1 - pass@k) / d log k, grows beyond every b; it has no asymptote here.
    """
    ks = np.logspace(0, 6, 25) if ks is None else np.asarray(ks, dtype=float)
    frames = []
    for b, s in BETAS:

        def miss(k, b=b, s=s):
            return betaln(b, s + k) - betaln(b, s)

        frame = pd.DataFrame({"density": f"Beta({b:g}, {s:g})", "b": b, "k": ks})
        frame["miss"] = np.exp(miss(ks))
        frame["asymptote"] = np.exp(gammaln(b) - betaln(b, s)) * ks**-b
        frame["slope"] = (miss(ks) - miss(2 * ks)) / np.log(2)
        frames.append(frame.assign(ratio=frame["miss"] / frame["asymptote"]))
    for c in (0.01, 0.1):
        frame = pd.DataFrame({"density": f"exp(-{c:g} / p)", "k": ks})
        frame["miss"] = np.exp([rapid(k, c) for k in ks])
        frame["slope"] = [(rapid(k, c) - rapid(2 * k, c)) / np.log(2) for k in ks]
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def rapid(k: float, c: float) -> float:
    """log E[(1 - p)^k] for the density exp(-c / p) / Z on (0, 1], by quadrature in log p."""
    x = -18 * (np.arange(40_000) + 0.5) / 40_000  # log p, midpoints
    p = np.exp(x)
    log_density = -c / p + x  # dp = p dx
    return float(logsumexp(k * np.log1p(-p) + log_density) - logsumexp(log_density))


def recovered() -> pd.DataFrame:
    """What a shifted power law fitted to k <= 100 says of b, on the same Beta densities.

    Asymptotically a = C Gamma(b) and the exponent is b; at these k it need not be.
    """
    rows = []
    for b, s in BETAS:
        curve = 1 - np.exp(betaln(b, s + np.array(KS)) - betaln(b, s))
        fitted = fit_power_law(KS, curve)[0]
        error = ((power_law(KS, *fitted) - curve) ** 2).mean()
        found = dict(zip(("fitted_a", "fitted_b", "fitted_c"), fitted, strict=True), mse=error)
        truth = {"b": b, "a": float(np.exp(gammaln(b) - betaln(b, s)))}
        rows.append({"density": f"Beta({b:g}, {s:g})", **truth, **found})
    return pd.DataFrame(rows)


# ---- of counts


def curves(counts: pd.DataFrame) -> tuple[list[int], np.ndarray]:
    """(k, pass@k of each problem (P, K)), mean over seeds; k up to the fewest samples."""
    ks = [k for k in KS if k <= counts["n"].min()]
    values = pass_at_k(counts["c"].to_numpy(), counts["n"].to_numpy(), ks)
    frame = pd.DataFrame(values, index=counts["problem_id"].to_numpy())
    return ks, frame.groupby(level=0).mean().to_numpy()


def coefficients(counts: pd.DataFrame) -> pd.DataFrame:
    """a, b, c of the shifted power law with 95 % intervals over problems.

    One row a table, method, benchmark and step; seeds are pooled.
    """
    rows = []
    key = ["table", "method", "benchmark", "step"]
    for which, own in counts.groupby(key, sort=False):
        ks, values = curves(own)
        drawn = resampled_means(values, draws=DRAWS, seed=0)
        fitted = fit_power_law(ks, np.vstack([values.mean(0), drawn]))
        low, high = percentile_interval(fitted[1:])
        row = dict(zip(key, which, strict=True), n_seeds=own["seed"].nunique(), k_max=ks[-1])
        for i, name in enumerate("abc"):
            row |= {name: fitted[0, i], f"{name}_low": low[i], f"{name}_high": high[i]}
        rows.append(row)
    return pd.DataFrame(rows)


def by_seed(counts: pd.DataFrame) -> pd.DataFrame:
    """a, b, c of every run and step, for claims: table, method, benchmark, seed, step, a, b, c."""
    rows = []
    key = ["table", "method", "benchmark", "seed", "step"]
    for which, own in counts.groupby(key, sort=False):
        ks, values = curves(own)
        a, b, c = fit_power_law(ks, values.mean(0))[0]
        rows.append(dict(zip(key, which, strict=True), a=a, b=b, c=c))
    return pd.DataFrame(rows, columns=[*key, "a", "b", "c"])


def laws(ks: list[int], curve: np.ndarray) -> dict[str, tuple[np.ndarray, float]]:
    """law -> (fitted curve, mean squared error), each least squares in pass@k itself.

    power: 1 - a k^-b (Theorem 12.1 at every k); exponential: exp(-a k^-b) (Brown et al. 2024);
    shifted: exp(-a (k + c)^-b), which contains the second, so it cannot be worse than that.
    """
    k = np.asarray(ks, dtype=float)

    def fit(law) -> np.ndarray:
        starts = [np.log([a, b]) for a in (0.3, 1.0, 3.0) for b in (0.2, 0.6, 1.5)]
        found = [
            minimize(lambda t: ((law(*np.exp(t)) - curve) ** 2).mean(), s, method="Nelder-Mead")
            for s in starts
        ]
        return law(*np.exp(min(found, key=lambda one: one.fun).x))

    fitted = {
        "power": fit(lambda a, b: 1 - a * k**-b),
        "exponential": fit(lambda a, b: np.exp(-a * k**-b)),
        "shifted": power_law(k, *fit_power_law(ks, curve)[0]),
    }
    return {name: (value, float(((value - curve) ** 2).mean())) for name, value in fitted.items()}


def law_table(counts: pd.DataFrame) -> pd.DataFrame:
    """table, method, benchmark, law, mse, and the error at k = 1 (fitted - measured, in points)."""
    rows, key = [], ["table", "method", "benchmark"]
    for which, own in counts.groupby(key, sort=False):
        ks, values = curves(own)
        if len(ks) < 4:
            continue
        mean = values.mean(0)
        for law, (fitted, error) in laws(ks, mean).items():
            row = dict(zip(key, which, strict=True), law=law, mse=error)
            rows.append(row | {"at_1": 100 * (fitted[0] - mean[0])})
    return pd.DataFrame(rows, columns=[*key, "law", "mse", "at_1"])


def budgets(counts: pd.DataFrame) -> pd.DataFrame:
    """Fig. 11: the shifted power law fitted to k <= 10 and k <= 50, its pass@100 and the measured.

    One row a table, method, benchmark and budget, after the last step; only where n >= 100.
    """
    rows, key = [], ["table", "method", "benchmark"]
    for which, own in counts[counts["n"] >= 100].groupby(key, sort=False):
        ks, values = curves(own)
        mean = values.mean(0)
        for budget in (10, 50):
            inside = [i for i, k in enumerate(ks) if k <= budget]
            fitted = fit_power_law([ks[i] for i in inside], mean[inside])[0]
            row = dict(zip(key, which, strict=True), budget=budget, measured=mean[ks.index(100)])
            rows.append(row | {"predicted": power_law([100], *fitted)[0], "fit": fitted.tolist()})
    return pd.DataFrame(rows, columns=[*key, "budget", "measured", "predicted", "fit"])
