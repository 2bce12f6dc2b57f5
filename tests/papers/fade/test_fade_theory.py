from math import comb, gamma, isinf

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import betabinom

from common.methods.binding import all_groups
from papers.fade.theory import entropy, masses, multi_turn, scaling

# ---- Theorem 13.1


def test_one_step_against_finite_differences_by_hand():
    # two actions, the first right: natural step of A = (1, -1) / 2 on logits moves them by eta A
    policy, correct = torch.tensor([0.8, 0.2], dtype=torch.float64), torch.tensor([True, False])
    weights = all_groups(8).double() * 2 - 1  # A = +1 or -1: m_S - m_F = p - q = 0.6
    changes = entropy.one_step(weights, policy, correct)
    # dH = -p q (log p - log q) d(z_1 - z_2), which moves by 2 eta in the natural step
    gap = np.log(0.8 / 0.2)
    assert changes["natural"] == pytest.approx(-0.16 * gap * 2, rel=1e-3)
    # plain: dz_a = pi_a (A_a - E A), so z_1 - z_2 moves by 0.8 (1 - 0.6) - 0.2 (-1 - 0.6) = 0.64
    assert changes["plain"] == pytest.approx(-0.16 * gap * 0.64, rel=1e-3)
    H = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    assert changes["minus_cov"] == pytest.approx(-0.16 * gap * 2, rel=1e-6)
    assert changes["eq_7"] == pytest.approx(0.6 * H - 0.32 * gap)


def test_the_drift_of_eq_7_is_not_there():
    table = entropy.checks(instances=12, seed=3)
    assert len(table) == 12 * len(entropy.DELTAS)
    summary = entropy.summary(table).set_index("delta")
    assert summary.loc[1.0, "eq_7_exact"] == 100  # balanced weights: Eq. 7 is right
    assert (summary["minus_cov_exact"] >= 90).all()
    assert summary.loc[0.5, "eq_7_exact"] < 20
    assert (summary["same_direction"] == 100).all()
    # no restoring force: smaller delta loses more where entropy falls, keeps more where it rises
    falls = table[table["delta"] == 1].set_index("instance")["natural"] < 0
    half = table[table["delta"] == 0.5].set_index("instance")["natural"]
    one = table[table["delta"] == 1].set_index("instance")["natural"]
    assert ((half < one) == falls).all()


# ---- Theorem 12.1


def test_theorem_12_1_on_beta_densities():
    table = scaling.theorem_12_1(np.array([1.0, 10, 1e6]))
    half = table[table["density"] == "Beta(0.5, 2)"].set_index("k")
    assert half.loc[1.0, "miss"] == pytest.approx(1 - 0.5 / 2.5)  # 1 - E[p]
    # P(no success in k) of a Beta-binomial
    assert half.loc[10.0, "miss"] == pytest.approx(betabinom.pmf(0, 10, 0.5, 2))
    C = gamma(2.5) / gamma(0.5) / gamma(2)
    assert half.loc[10.0, "asymptote"] == pytest.approx(C * gamma(0.5) * 10**-0.5)
    power = table.dropna(subset=["b"])
    end = power[power["k"] == 1e6]
    assert end["ratio"].to_numpy() == pytest.approx(1, abs=1e-3)
    assert end["slope"].to_numpy() == pytest.approx(end["b"].to_numpy(), abs=1e-3)
    rapid = table[table["b"].isna()].sort_values("k")
    assert (rapid.groupby("density")["slope"].is_monotonic_increasing).all()
    assert (rapid[rapid["k"] == 1e6]["slope"] > 50).all()


def test_rapid_density_by_summation():
    p = (np.arange(2_000_000) + 0.5) / 2_000_000
    density = np.exp(-0.1 / p)
    assert np.exp(scaling.rapid(5, 0.1)) == pytest.approx(
        (density * (1 - p) ** 5).sum() / density.sum(), rel=1e-4
    )


# ---- retries


@pytest.mark.parametrize(("reading", "reach"), [("a response", 0.6), ("all", 0.6**4)])
def test_retry_has_the_mass_of_power_2(reading, reach):
    rng = np.random.default_rng(1)
    played = multi_turn.play(p=0.4, B=4, reading=reading, prompts=60_000, rng=rng)
    assert played["m_2"] == pytest.approx(3 / 4 * 0.24 * reach, abs=4 * played["stderr_2"])
    # by enumeration: E[1 - X/B] and Pr(X = 0) are the chances
    chances = [comb(4, x) * 0.4**x * 0.6 ** (4 - x) for x in range(5)]
    chance = sum(c * (1 - x / 4) for x, c in enumerate(chances))
    assert (chance if reading == "a response" else chances[0]) == pytest.approx(reach)


@pytest.mark.sweep
def test_theory_writes_its_tables_and_figures(tmp_path, monkeypatch, by_advantage):
    from papers.fade.theory import __main__

    kept = [(n, m) for n in by_advantage for m in by_advantage[n]]
    monkeypatch.setattr(masses, "variants", lambda: kept)
    monkeypatch.setattr(masses, "SOLVE_RATES", [0.1, 0.3, 0.5, 0.9])
    monkeypatch.setattr(masses, "LIMIT", 100)
    monkeypatch.setattr(entropy.checks, "__defaults__", (6, 0))
    monkeypatch.setattr(multi_turn.simulate, "__defaults__", (500, 8, 0))
    __main__.run(tmp_path)
    home = tmp_path / "fade"
    table = pd.read_csv(home / "weights" / "masses.csv")
    assert list(table) == [
        "method", "params", "G", "p", "m_S", "m_F", "rho", "closed_form_m_S", "closed_form_m_F",
    ]  # fmt: skip
    assert {8, 16} < set(table["G"])
    assert isinf(table["G"].max())
    drawn = {path.stem for path in (home / "figures").glob("*.png")}
    assert drawn == {"fig2", "fig7", "theorem_13_1"}
    from papers.fade.compare import exact_rows

    rows = pd.concat(exact_rows(tmp_path))
    assert set(rows["table"]) == {
        "masses", "table8", "sec14", "kish", "entropy", "scaling", "multi_turn",
    }  # fmt: skip
    shared = rows[(rows["metric"] == "rho_off") & (rows["benchmark"] == "G=8")]["value"].item()
    assert shared < 1e-4
    assert not rows.duplicated(["table", "method", "benchmark", "metric"]).any()
