"""The exact gradient masses of every method: FADE's Tables 1, 7 and 8, Figs. 2 and 7, sec 14.1.

`python -m papers.fade.theory` writes them to <results_dir>/fade/weights/. common/methods/exact.py
computes them; this module has the paper's grids and closed forms, and the variance of a weight that
is estimated from G responses (sec 14). Left out: W-REINFORCE of Fig. 2, for which sec 8 gives no
formula.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from common.config.schema import Method, Reward
from common.methods.binding import Bound, all_groups, bind, group_weights
from common.methods.exact import binomial, masses
from common.methods.rate import at_start
from common.methods.theory import family
from papers.fade.theory.closed_forms import closed_form, peak

REWARD = Reward(correct=1.0, wrong=0.0)
SOLVE_RATES = [0.02, *(round(0.05 * i, 2) for i in range(1, 20)), 0.98]
SIZES = (8, 16)  # G of sec 14.1; Fig. 7 has 16
LIMIT = 1000  # size of the one group that stands for the population limit, to O(1 / LIMIT)
GRIDS = {  # all values of the paper, for methods whose file sets only one of them
    "asym_grpo": [{"delta": delta} for delta in (0.3, 0.5, 0.7, 1.5, 2.0)],
    "power_alpha": [
        {"alpha": alpha, "normalise": normalise}
        for normalise in (False, True)
        for alpha in (2.0, 3.0)
    ],
    "easy_power": [{"alpha": 2.0, "normalise": normalise} for normalise in (False, True)],
    "pass_at_k_tang": [{"k": 4}, {"k": 8}],
}
HIDDEN = {"_target_", "max_tokens"}


def variants() -> list[tuple[str, Method]]:
    """Return (advantage name, method) for each distinct advantage and controller of method files; a
    method in GRIDS appears once for each of the paper's values."""
    methods = []
    for theory in family([]):
        name = theory.method.advantage["_target_"].split(".")[-1]
        for changed in GRIDS.get(name, [{}]):
            advantage = {**theory.method.advantage, **changed}
            methods.append((name, replace(theory.method, advantage=advantage)))
    return methods


def mass_table() -> pd.DataFrame:
    """Return the masses of every method, group size and solve rate.

    Columns: method, params, G, p, m_S, m_F, rho, closed_form_m_S, closed_form_m_F. G is inf for the
    population limit. A cell is empty where rho has no denominator or the paper prints no form. A
    controller's arguments are those of its first step (common/methods/rate.py).
    """
    rows = []
    for name, method in variants():
        bound = bind(method)
        given = at_start(bound)
        arguments = {k: v for k, v in {**method.advantage, **given}.items() if k not in HIDDEN}
        params = ", ".join(f"{key}={value:g}" for key, value in arguments.items())
        exact = {G: group_weights(bound, all_groups(G), REWARD, given) for G in SIZES}
        for p in SOLVE_RATES:
            printed = closed_form(name, p, arguments) or (None, None)
            by_size = {G: masses(weights, p) for G, weights in exact.items()}
            by_size[np.inf] = in_the_limit(bound, p, given)
            rows += [
                {
                    "method": method.name,
                    "params": params,
                    "G": G,
                    "p": p,
                    **{key: one[key] for key in ("m_S", "m_F", "rho")},
                    "closed_form_m_S": printed[0],
                    "closed_form_m_F": printed[1],
                }
                for G, one in by_size.items()
            ]
    return pd.DataFrame(rows)


def in_the_limit(bound: Bound, p: float, arguments: dict) -> dict:
    """Return m_S, m_F and rho of one large group whose solve rate is exactly p."""
    success = round(p * LIMIT)
    correct = (torch.arange(LIMIT) < success)[None]
    weights = group_weights(bound, correct, REWARD, arguments)[0]
    m_S, m_F = weights[:success].sum().item() / LIMIT, -weights[success:].sum().item() / LIMIT
    rho = m_S * p / (m_F * (1 - p)) if m_F != 0 else None
    return {"m_S": m_S, "m_F": m_F, "rho": rho}


def weight_variance(alpha: float, p: np.ndarray, G: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Var(w(p_hat)) for w(p) = C p (1 - p)^alpha, p_hat = X / G, X ~ Binomial(G, p): (exact,
    by the delta method of Eq. 30)."""
    at = torch.arange(G + 1).double() / G
    w = peak(alpha) * at * (1 - at) ** alpha
    chance = torch.stack([binomial(G, float(one)) for one in p])
    exact = (chance @ w**2 - (chance @ w) ** 2).numpy()
    return exact, slope(alpha, p) ** 2 * p * (1 - p) / G


def slope(alpha: float, p: np.ndarray) -> np.ndarray:
    """Return w'(p), Eq. 29."""
    return peak(alpha) * (1 - p) ** (alpha - 1) * (1 - (1 + alpha) * p)


def fig_7(G: int = 16) -> pd.DataFrame:
    """Return alpha, G, p, the exact variance and the paper's delta method, for Fig. 7."""
    p = np.linspace(0.01, 0.99, 99)
    frames = []
    for alpha in (1.0, 2.0, 3.0):
        exact, delta_method = weight_variance(alpha, p, G)
        columns = {"alpha": alpha, "G": G, "p": p, "exact": exact, "delta_method": delta_method}
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def table_8(alpha: float = 3.0) -> pd.DataFrame:
    """Return how much more signal than at 1/2 a prompt must carry for Power alpha to be worth it.

        [2 (1 - p)]^(alpha - 1)  x  (1 + v(p)) / (1 + v(1/2)),  v(p) = Var(w) / w^2  (Eq. 31)

    The first factor is printed, for G = inf. The second is our reading of "the reference is itself
    penalised" for a finite G; `easing` is the percent by which it reduces the multiplier.
    """
    rows = []
    for G in (*SIZES, np.inf):
        for p in (0.1, 0.2, 0.25, 0.3, 0.4, 0.5):
            v = [(1 - (1 + alpha) * x) ** 2 / (G * x * (1 - x)) for x in (p, 0.5)]
            limit = (2 * (1 - p)) ** (alpha - 1)
            factor = (1 + v[0]) / (1 + v[1])
            rows.append(
                {"G": G, "p": p, "multiplier": limit * factor, "easing": 100 - 100 * factor}
            )
    return pd.DataFrame(rows).replace(np.inf, "inf")


def kish() -> pd.DataFrame:
    """Return Kish's effective share of prompts by alpha: the N_eff / M of Eq. 10, in percent, which
    is (E w)^2 / E[w^2] for w = p q^alpha over uniform solve rates; C cancels. E[p^i q^j] = i!
    j! / (i + j + 1)!, so alpha = 1 gives (1/6)^2 / (1/30) = 5/6."""
    p = (np.arange(20_000) + 0.5) / 20_000
    rows = []
    for alpha in (1.0, 2.0, 3.0, 5.0):
        w = p * (1 - p) ** alpha
        rows.append({"alpha": alpha, "N_eff": 100 * w.mean() ** 2 / (w**2).mean()})
    return pd.DataFrame(rows)


def sec_14_1() -> pd.DataFrame:
    """Return the sweet spot and the best alpha for signals s(p) = exp(-c p), solve rates uniform.

        sweet spot = argmax_p s^2 p (1 - p)
        alpha      = argmax (E[w s])^2 / E[w^2 v + Var(w) (s^2 + v)],  v = 1 / (G p (1 - p))

    The second is the squared signal-to-noise ratio of a sum over prompts; G = inf leaves Var(w) out
    (known weights). The paper gives neither the density f(p) nor the unit of s: uniform on [0, 1]
    and s(0) = 1 are our choices, and they give the printed ranges. Eq. 10 as printed,
    N_eff E[s^2 / (w^2 v)], diverges at p -> 0 for every alpha, so it has no best alpha.
    """
    p = (np.arange(2000) + 0.5) / 2000
    alphas = np.round(np.arange(0.5, 3.001, 0.01), 2)
    rows = []
    for c in (0.0, 0.25, 0.5, 0.75, 1.0):
        s = np.exp(-c * p)
        for G in (*SIZES, np.inf):
            v, quality = 1 / (p * (1 - p)), []
            for alpha in alphas:
                w = peak(alpha) * p * (1 - p) ** alpha
                of_w = slope(alpha, p) ** 2 * p * (1 - p)  # G Var(w)
                noise = w**2 * v + of_w * (0 if np.isinf(G) else s**2 + v / G)
                quality.append((w * s).mean() ** 2 / noise.mean())
            spot, best = p[np.argmax(s**2 / v)], alphas[int(np.argmax(quality))]
            rows.append({"c": c, "G": G, "sweet_spot": spot, "alpha": best})
    return pd.DataFrame(rows).replace(np.inf, "inf")
