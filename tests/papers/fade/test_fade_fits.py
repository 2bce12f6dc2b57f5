import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln

from papers.fade import count_figures
from papers.fade.fits import tables as fits


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
    from common.metrics.fits import fit_power_law, power_law

    curve = 1 - np.exp(betaln(0.4, 1.5 + np.array(fits.KS)) - betaln(0.4, 1.5))
    a, b, _ = fit_power_law(fits.KS, curve)[0]
    assert fit["b"] == pytest.approx(b, rel=0.03)
    assert fit["a"] == pytest.approx(a, rel=0.03)
    assert fit["b_low"] < fit["b"] < fit["b_high"]
    assert fit["k_max"] == 100
    # a law fitted to k <= 50 foresees pass@100 (Fig. 11)
    ks, values = fits.curves(counts)
    few = [k for k in ks if k <= 50]
    law = fit_power_law(few, values.mean(0)[: len(few)])[0]
    assert power_law(100, *law) == pytest.approx(values.mean(0)[ks.index(100)], abs=0.01)


def test_groups_of_16_are_those_of_all_draws():
    """Fig. 10: of problems with 0, 5 and 20 of 20 right, the shares of groups of 2 by hand."""
    counts = pd.DataFrame({"n": 20, "c": [0, 5, 20]})
    pairs = [15 * 14, 2 * 15 * 5, 5 * 4]
    wanted = [(1 + pairs[0] / 380) / 3, pairs[1] / 380 / 3, (pairs[2] / 380 + 1) / 3]
    assert count_figures.groups_of(counts, 2).tolist() == pytest.approx(wanted)
