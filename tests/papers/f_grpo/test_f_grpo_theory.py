"""F-GRPO's closed forms against hand-worked numbers, enumeration, simulation and exact softmax
steps."""

import itertools
from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy.special import softmax

from common.results.files import write_csv
from papers.f_grpo.compare import theory_rows
from papers.f_grpo.theory import formulas, tables


def instance(seed, actions=12, N=5):
    """A random policy, its correct actions, and the distinct actions of a random group of N."""
    generator = np.random.default_rng(seed)
    p = softmax(2 * generator.normal(size=actions))
    sampled = np.zeros(actions, bool)
    sampled[generator.choice(actions, size=N, p=p)] = True
    correct = np.arange(actions) < actions // 3
    return p, correct, sampled


# --- Eq. 9, Lemma 3.1


@pytest.mark.parametrize("N", [1, 2, 3, 5, 7])
@pytest.mark.parametrize(("mu", "tau"), [(0.3, 0.1), (0.64, 0.01), (0.95, 0.9)])
def test_lemma_3_1_by_enumerating_all_groups(mu, tau, N):
    mass = {"rare": tau, "common": mu - tau, "wrong": 1 - mu}
    active = missed = 0.0
    for group in itertools.product(mass, repeat=N):
        probability = np.prod([mass[answer] for answer in group])
        mixed = 0 < group.count("wrong") < N
        active += probability * mixed
        missed += probability * (mixed and "rare" not in group)
    assert formulas.pr_active(mu, N) == pytest.approx(active, abs=1e-12)
    assert formulas.pr_tail_miss(mu, tau, N) == pytest.approx(missed, abs=1e-12)


@pytest.mark.parametrize(
    ("mu", "tau"), [(1e-9, 1e-12), (0.3, 1e-12), (0.3, 6.3e-5), (0.999999, 6.3e-5)]
)
@pytest.mark.parametrize("N", [2, 3, 64, 2**17, 2**20])
def test_tail_miss_keeps_its_precision(mu, tau, N):
    getcontext().prec = 80
    m, t = Decimal(mu), Decimal(tau)  # exactly the numbers that the function sees
    exact = (1 - t) ** N - (m - t) ** N - (1 - m) ** N
    # 1 - mu in floats is itself off by 1e-16, which is 1e-10 of 1 - 0.999999
    assert formulas.pr_tail_miss(mu, tau, N) == pytest.approx(float(exact), rel=1e-9, abs=0)


@pytest.mark.parametrize(("power", "value"), [(15, 0.127), (16, 0.016), (17, 2.6e-4)])
@pytest.mark.parametrize("mu", [0.63, 0.64])
def test_appendix_j_tail_miss(mu, power, value):
    assert formulas.pr_tail_miss(mu, 6.3e-5, 2**power) == pytest.approx(value, rel=0.02)


def test_peak_is_the_brute_force_maximum():
    N = np.arange(1, 20_000)
    generator = np.random.default_rng(0)
    pairs = [
        (mu, mu * 10 ** -generator.uniform(0.01, 4)) for mu in generator.uniform(0.003, 0.997, 200)
    ]
    for mu, tau in [*pairs, (0.64, 6.3e-5)]:
        curve = (1 - tau) ** N - (mu - tau) ** N - (1 - mu) ** N  # Eq. 11 as printed
        peak = formulas.peak_group_size(mu, tau)
        assert peak.value == pytest.approx(curve.max(), rel=1e-12)
        assert N[curve.argmax()] == peak.N or curve[peak.N - 1] == pytest.approx(
            curve.max(), rel=1e-15
        )


# --- Eq. 7, 13, 20, 21


@pytest.mark.parametrize("R_w", [0.0, -1.0])
def test_logit_update_is_the_gradient_of_the_sample_surrogate(R_w):
    p, correct, sampled = instance(3)
    eta, N = 0.7, 5
    R = np.where(correct, 1.0, R_w) * sampled
    z, numeric = np.log(p), np.zeros(len(p))
    for j in range(len(p)):
        up, down = (softmax(z + sign * 1e-5 * np.eye(len(p))[j]) for sign in (1, -1))
        numeric[j] = eta * (R @ up - R @ down) / N / 2e-5
    dz = formulas.logit_update(p, correct, sampled, R_c=1.0, R_w=R_w, eta=eta, N=N)
    np.testing.assert_allclose(dz, numeric, atol=1e-11)


@pytest.mark.parametrize("R_w", [0.0, -1.0, 0.5])
def test_equation_13_is_the_exact_first_order(R_w):
    for seed in range(30):
        p, correct, sampled = instance(seed)
        subset, errors = correct & ~sampled, []
        for eta in (1e-2, 1e-3):
            step = {"R_c": 1.0, "R_w": R_w, "eta": eta, "N": 5}
            dz = formulas.logit_update(p, correct, sampled, **step)
            exact = softmax(np.log(p) + dz)[subset].sum() - p[subset].sum()
            closed = formulas.delta_q_u_pos(p, correct, sampled, **step)
            errors.append(abs(closed - exact) / eta)
            # the summed Jacobian (Eq. 20)
            first_order = (p * (dz - p @ dz))[subset].sum()
            assert closed == pytest.approx(first_order, abs=1e-16)
        assert errors[0] < 1e-3
        assert errors[1] < 0.11 * errors[0] + 1e-12  # O(eta); 1e-12 is the rounding of exact/eta


def test_exact_mass_change_equals_the_plain_softmax_and_stays_precise():
    p, correct, _ = instance(1)
    dz = np.random.default_rng(0).normal(size=len(p))
    plain = softmax(np.log(p) + dz)[correct].sum() - p[correct].sum()
    assert formulas.exact_delta_mass(p, dz, correct) == pytest.approx(plain, abs=1e-14)
    tiny = formulas.exact_delta_mass(p, 1e-12 * dz, correct)
    first_order = 1e-12 * (p * (dz - p @ dz))[correct].sum()
    assert tiny == pytest.approx(first_order, rel=1e-9, abs=0)


# --- Fig. 3


@pytest.mark.parametrize("R_w", [0.0, -1.0])
def test_scaled_advantage_equals_the_advantage_of_a_group(R_w):
    for X in range(1, 8):
        rewards = np.array([1.0] * X + [R_w] * (8 - X))
        advantage = (rewards - rewards.mean()) / rewards.std()
        right, wrong = formulas.scaled_advantage(X / 8, gamma=1.5)
        assert right == pytest.approx(advantage[0] * (1 - X / 8) ** 1.5)
        assert wrong == pytest.approx(-advantage[-1] * (1 - X / 8) ** 1.5)


@pytest.mark.parametrize("R_w", [0.0, -1.0])
def test_lemma_b1_by_enumerating_all_groups(R_w):
    p, N = np.array([0.1, 0.25, 0.05, 0.4, 0.2]), 4
    correct = np.array([True, True, True, False, False])
    weight, pos, neg, s_r = (np.zeros(N + 1) for _ in range(4))
    for group in itertools.product(range(len(p)), repeat=N):
        probability, distinct = p[list(group)].prod(), list(set(group))
        k = correct[list(group)].sum()
        P_pos = p[distinct][correct[distinct]].sum()
        P_neg = p[distinct][~correct[distinct]].sum()
        weight[k] += probability
        pos[k] += probability * P_pos
        neg[k] += probability * P_neg
        s_r[k] += probability * (P_pos + R_w * P_neg)
    k = np.arange(N + 1)
    np.testing.assert_allclose(formulas.expected_p_pos(p, correct, k), pos / weight, atol=1e-14)
    np.testing.assert_allclose(
        formulas.expected_p_neg(p, correct, k, N=N), neg / weight, atol=1e-14
    )
    expected = formulas.expected_s_r(p, correct, k, N=N, R_c=1.0, R_w=R_w)
    np.testing.assert_allclose(expected, s_r / weight, atol=1e-14)


def test_the_theorys_rows_are_what_the_claims_say(tmp_path):
    folder = tmp_path / "f_grpo" / "theory"
    assert theory_rows(tmp_path).empty
    steps = tables.one_step_table(seeds=40)
    write_csv(folder / "tail_miss.csv", tables.tail_miss_table())
    write_csv(folder / "one_step.csv.gz", steps)
    write_csv(folder / "lemma_b1.csv", tables.lemma_b1_table(seeds=2))
    rows = theory_rows(tmp_path).set_index(["method", "benchmark", "metric"])["value"]
    # Eq. 13's second term from its own sums, over the reward-positive groups of N = 2
    p, correct = tables.policies(40), np.arange(tables.ACTIONS) < tables.CORRECT
    sampled, negative = tables.sampled_mask(p, 2), []
    for R_c, R_w in tables.REWARDS.values():
        for q, seen in zip(p, sampled, strict=True):
            A_2, B_2 = (q[seen & mask] @ q[seen & mask] for mask in (correct, ~correct))
            S_R = R_c * q[seen & correct].sum() + R_w * q[seen & ~correct].sum()
            if S_R > 0:
                U_2 = q[~seen] @ q[~seen]
                negative.append((R_c - S_R) * A_2 + (R_w - S_R) * B_2 - S_R * U_2 > 0)
    assert rows["Eq. 13", "N=2", "both_negative"] == pytest.approx(100 * np.mean(negative))
    assert 0 < rows["Eq. 13", "N=32", "error"] < 0.1
    assert 0 < rows["Eq. 13", "N=2", "shrinks"] < 100
    for name in ("P_pos", "P_neg"):
        assert 1 < rows[name, "N=16", "stderrs_off"] < 4
    assert rows["P_pos", "N=16", "rise_low"] > 0 > rows["P_neg", "N=16", "rise_high"]
    assert rows["S_R, rewards {-1, -0.5}", "N=16", "rise_low"] < -0.005
