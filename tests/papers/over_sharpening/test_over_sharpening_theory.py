import numpy as np
import pandas as pd
import pytest
from refuses import refuses
from scipy.optimize import minimize
from scipy.special import softmax

from common.errors import UserError
from papers.over_sharpening.theory import formulas, tables

REF = np.array([0.5, 0.3, 0.15, 0.05])
CORRECT = np.array([True, True, False, False])


def maximised(function, start=REF):
    """The policy that maximises `function`, numerically, over softmax logits."""
    best = minimize(
        lambda z: -function(softmax(z)), np.log(start), method="BFGS", options={"gtol": 1e-9}
    )
    return softmax(best.x)


def test_theorem_2_1_is_the_numerical_maximum():
    A, beta = np.array([0.7, 0.7, -0.4, -0.4]), 0.3
    maximum = maximised(lambda pi: formulas.objective(pi, REF, A, beta))
    np.testing.assert_allclose(formulas.optimum(REF, A, beta), maximum, atol=1e-6)
    assert not formulas.over_sharpened(maximum, REF, CORRECT)
    with refuses("beta", 0):
        formulas.optimum(REF, A, 0)


def test_theorem_2_2_maximises_the_linear_objective_only():
    counts, A, beta = np.array([3, 0, 1, 0]), np.array([0.6, 0.6, -1.7, -1.7]), 0.4
    hat = formulas.batch_optimum(REF, counts, A, beta)
    target = formulas.batch_target(counts, A)
    np.testing.assert_allclose(target, [0.45, 0, -0.425, 0])
    maximum = maximised(lambda pi: formulas.objective(pi, REF, target, beta))
    np.testing.assert_allclose(hat, maximum, atol=1e-6)
    # Z' by hand: 0.5 e^{0.45/0.4} + 0.3 + 0.15 e^{-0.425/0.4} + 0.05; the unsampled shrink by it
    Z = 0.5 * np.exp(1.125) + 0.35 + 0.15 * np.exp(-1.0625)
    assert formulas.partition(REF, counts, A, beta) == pytest.approx(Z)
    np.testing.assert_allclose(hat[[1, 3]], REF[[1, 3]] / Z)
    assert formulas.over_sharpened(hat, REF, CORRECT)


def test_eq_3_as_printed_is_unbounded():
    counts, A = np.array([3, 0, 1, 0]), np.array([0.6, 0.6, -1.7, -1.7])
    values = []
    for e in (1e-2, 1e-20, 1e-200):
        pi = np.array([0.6, 0.35, e, 0.05 - e])
        values.append(formulas.printed_objective(pi, REF, counts, A, 0.4))
    assert values[2] > values[1] + 100 > values[0] + 100
    with pytest.raises(UserError, match="no maximum"):
        formulas.printed_optimum(REF, counts, A, 0.4)


def test_printed_optimum_without_negative_advantages():
    counts, A, beta = np.array([2, 1, 1, 0]), np.array([1.0, 1.0, 0, 0]), 0.2
    true = formulas.printed_optimum(REF, counts, A, beta)
    maximum = maximised(lambda pi: formulas.printed_objective(pi, REF, counts, A, beta))
    np.testing.assert_allclose(true, maximum, atol=1e-6)
    assert np.abs(true - formulas.batch_optimum(REF, counts, A, beta)).max() > 0.05
    np.testing.assert_allclose(true[3] / REF[3], true[2] / REF[2])  # both have N_i A_i = 0


def test_theorem_2_3_by_hand():
    counts, beta = np.array([2, 1, 1, 0]), 0.5
    # p = 3/4, sigma = sqrt(3)/4: A+ = 1/sqrt(3), A- = -sqrt(3)
    plus, minus = formulas.normalised_advantages(0.75)
    assert (plus, minus) == pytest.approx((3**-0.5, -(3**0.5)))
    bounds = formulas.partition_bounds(REF, counts, CORRECT, A_plus=plus, A_minus=minus, beta=beta)
    first = 1 + (3**-0.5 * (2 * 0.5 + 0.3) - 3**0.5 * 0.15) / (0.5 * 4)
    assert bounds.first == pytest.approx(first)
    assert bounds.gap == pytest.approx(0.3 - 0.15)
    assert bounds.simplified == pytest.approx(1 + 0.75 * 0.25 / (0.5 * 3**0.5 / 4) * 0.15)
    A = np.where(CORRECT, plus, minus)
    assert formulas.partition(REF, counts, A, beta) >= bounds.first >= bounds.simplified


def test_theorem_b1_is_a_natural_gradient_step_not_a_gradient_step():
    # at pi = ref the linear objective's natural gradient is its target, up to a constant
    counts, A = np.array([3, 0, 1, 0]), np.array([0.6, 0.6, -1.7, -1.7])
    step = formulas.geometric_step(REF, formulas.batch_optimum(REF, counts, A, 0.4), 0.5, 0.4)
    natural = softmax(np.log(REF) + 0.5 * formulas.batch_target(counts, A))
    np.testing.assert_allclose(step, natural)
    table = tables.modes_checks(draws=200, seed=3).set_index("statement")
    share = table["violated"] / table["cases"]
    assert share["Theorem B.1 is a gradient step on softmax logits"] > 0.9
    np.testing.assert_allclose(formulas.geometric_step(REF, REF[::-1], 1, 1), REF[::-1])
    np.testing.assert_allclose(formulas.geometric_step(REF, REF[::-1], 0, 1), REF)


# ---- Theorem 2.4


def uniform(lam, rho, G):
    return (lam - rho) * np.eye(G) + rho


def test_dual_and_bounds_on_a_uniform_kernel_by_hand():
    # G = 2, lambda = 2, rho = 1: K^-1 = [[2, -1], [-1, 2]] / 3; y = (1, 0.5)
    K, y = uniform(2.0, 1.0, 2), np.array([1.0, 0.5])
    np.testing.assert_allclose(formulas.dual(K, y), [0.5, 0.0], atol=1e-12)
    s = formulas.spread(K)
    assert s == formulas.Spread(2, 2, 1, 1)
    assert formulas.unseen_bound(s, 2, 1.5, 0.3) == pytest.approx(0.3 * 1.5 / 3)
    # equal entries: both bounds are the shift itself where alpha >= 0
    assert np.ones(2) @ formulas.dual(K, y) == pytest.approx(0.5)
    assert formulas.seen_bound(s, 2, 1, y[0], 1.5, 1.0) == pytest.approx(1 - 1.5 / 3)
    assert K[0] @ formulas.dual(K, y) == pytest.approx(y[0])  # a seen mode moves by y_k


def test_bounds_of_an_uneven_kernel_by_hand():
    s, group = formulas.Spread(2.0, 3.0, 0.5, 1.0), dict(G=3, A_sum=2.0)
    # case 2: 0.5 * 2 * 1.5 / 2 * (1 - 1 * 2 / (3 + 2)); case 1: 0.5 * 1 * 2 / (2 + 2 * 0.5)
    assert formulas.seen_bound(s, N=2, y=1.0, eta=0.5, **group) == pytest.approx(0.45)
    assert formulas.unseen_bound(s, eta=0.5, **group) == pytest.approx(1 / 3)


def test_spread_leaves_out_the_copies_of_a_mode():
    K = uniform(2.0, 1.0, 3)
    K[0, 1] = K[1, 0] = 2.0
    distinct = np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=bool)
    K[2, 2] = 3.0
    assert formulas.spread(K) == (2, 3, 1, 2)
    assert formulas.spread(K, distinct).rho_max == 1


def test_the_case_2_bound_is_violated_by_repeats():
    found = (tables.coupling_checks(8, 0.5, 0.0, r, draws=200, seed=2) for r in (False, True))
    plain, repeated = (
        one.set_index("statement").loc["case 2: seen mode, lower bound"] for one in found
    )
    assert plain["violated"] / plain["cases"] < 0.1
    assert repeated["violated"] / repeated["cases"] > 0.1


# ---- what the checks count


def test_group_checks_count_what_they_say():
    groups = pd.concat([tables.sampled_groups(G, 0.1, 500, seed=1) for G in (4, 8)])
    table = tables.group_checks(groups)
    violated = dict(zip(table["statement"], table["violated"], strict=True))
    assert violated["Theorem 2.3: Z' >= the first bound"] == 0
    assert violated["Theorem 2.3: Z' >= the simplified bound"] == 0
    mixed = groups["p"] * groups["G"] < groups["G"] - 1  # G - |S+| > 1, so the factor exceeds 1
    assert (
        violated["Sec. 3.1, our reading: IAC keeps Z' at or below GRPO's, same beta"] == mixed.sum()
    )
    assert np.allclose(groups["Z_iac"][~mixed], groups["Z"][~mixed])
