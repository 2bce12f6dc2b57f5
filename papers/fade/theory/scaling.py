"""Pass@k scaling (FADE sec 12): Theorem 12.1 on known densities. Fits to sample counts are in
papers/fade/fits/."""

import numpy as np
import pandas as pd
from scipy.special import betaln, gammaln, logsumexp

BETAS = [(0.3, 1.0), (0.5, 2.0), (1.0, 3.0), (2.0, 5.0)]  # Beta(b, second): p^(b - 1) near 0


def theorem_12_1(ks: np.ndarray | None = None) -> pd.DataFrame:
    """Return 1 - pass@k by k: exact, the theorem's asymptote, their ratio, and the log-log slope.

    Power law: p ~ Beta(b, s), whose density is C p^(b - 1) (1 + O(p)), C = 1 / B(b, s), so
    1 - pass@k = B(b, s + k) / B(b, s) -> C Gamma(b) k^-b. Rapid decay: density ~ exp(-c / p), for
    which the slope, -d log(1 - pass@k) / d log k, grows beyond every b; such a density has no
    asymptote here.
    """
    ks = np.logspace(0, 6, 25) if ks is None else np.asarray(ks, dtype=float)
    frames = []
    for b, s in BETAS:
        miss, twice = (betaln(b, s + k) - betaln(b, s) for k in (ks, 2 * ks))
        frame = pd.DataFrame({"density": f"Beta({b:g}, {s:g})", "b": b, "k": ks})
        frame["miss"] = np.exp(miss)
        frame["asymptote"] = np.exp(gammaln(b) - betaln(b, s)) * ks**-b
        frame["slope"] = (miss - twice) / np.log(2)
        frames.append(frame.assign(ratio=frame["miss"] / frame["asymptote"]))
    for c in (0.01, 0.1):
        frame = pd.DataFrame({"density": f"exp(-{c:g} / p)", "k": ks})
        frame["miss"] = np.exp([rapid(k, c) for k in ks])
        frame["slope"] = [(rapid(k, c) - rapid(2 * k, c)) / np.log(2) for k in ks]
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def rapid(k: float, c: float) -> float:
    """Return log E[(1 - p)^k] for density exp(-c / p) / Z on (0, 1], by quadrature in log p."""
    x = -18 * (np.arange(40_000) + 0.5) / 40_000  # log p, midpoints
    p = np.exp(x)
    log_density = -c / p + x  # dp = p dx
    return float(logsumexp(k * np.log1p(-p) + log_density) - logsumexp(log_density))
