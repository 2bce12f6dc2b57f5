"""Pass@k laws fitted to counts: a known law is found again."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln

from papers.fade.fits import tables as fits
from papers.fade.theory import scaling


def test_coefficients_recover_a_known_law_from_counts():
    # solve rates by quantiles of Beta(0.4, 1.5), very many samples: the curve is the Beta's own
    from scipy.stats import beta

    rates = beta.ppf((np.arange(400) + 0.5) / 400, 0.4, 1.5)
    n = 4000
    counts = pd.DataFrame(
        {"table": "t", "method": "m", "benchmark": "rare", "seed": 1, "step": 5, "n": n}
        | {"c": np.round(rates * n).astype(int), "problem_id": np.arange(400).astype(str)}
    )
    fit = fits.coefficients(counts).iloc[0]
    from common.metrics.fits import fit_power_law

    curve = 1 - np.exp(betaln(0.4, 1.5 + np.array(scaling.KS)) - betaln(0.4, 1.5))
    a, b, _ = fit_power_law(scaling.KS, curve)[0]
    assert fit["b"] == pytest.approx(b, rel=0.03)
    assert fit["a"] == pytest.approx(a, rel=0.03)
    assert fit["b_low"] < fit["b"] < fit["b_high"]
    assert fit["k_max"] == 100
    predictions = fits.budgets(counts).set_index("budget")
    assert predictions.loc[50, "predicted"] == pytest.approx(
        predictions.loc[50, "measured"], abs=0.01
    )
