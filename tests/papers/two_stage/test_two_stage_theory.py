import itertools

import numpy as np
import pytest
import torch

from common.advantages.group import grpo
from common.advantages.sign import negative_only as failures_only
from papers.two_stage.theory import formulas

P = np.array([0.5, 0.3, 0.2])
R = np.array([0.5, 1.0, 0.0])


def instance(seed: int, V: int = 6):
    """A random policy and random rewards."""
    rng = np.random.default_rng(seed)
    return formulas.softmax(2 * rng.normal(size=V)), rng.normal(size=V)


def one_step(p, r, group, negative_only: bool) -> np.ndarray:
    """Algorithm 1's g / G for one sampled group, loop by loop."""
    mean, g = sum(r[a] for a in group) / len(group), np.zeros(len(p))
    for a in group:
        advantage = r[a] - mean
        if negative_only and advantage >= 0:
            continue
        for u in range(len(p)):
            g[u] += ((1 - p[u]) if u == a else -p[u]) * advantage
    return g / len(group)


def expected_over_groups(p, r, G: int, negative_only: bool) -> np.ndarray:
    total = np.zeros(len(p))
    for group in itertools.product(range(len(p)), repeat=G):
        total += np.prod([p[a] for a in group]) * one_step(p, r, group, negative_only)
    return total


# ---- Lemma 1


@pytest.mark.parametrize("advantage", [1.5, -0.7])
def test_lemma_1_is_the_gradient_of_the_log_probability(advantage):
    for seed in range(5):
        p, _ = instance(seed)
        z = torch.tensor(np.log(p) + 3, requires_grad=True)  # a constant in z changes nothing
        (advantage * z.log_softmax(0)[2]).backward()
        update = formulas.logit_update(p, 2, advantage=advantage, eta=0.3)
        np.testing.assert_allclose(update, 0.3 * z.grad.numpy(), atol=1e-12)


# ---- GRPO-N beside GRPO

RIGHT = np.array([1.0, 0.0, 1.0, 0.0])
LENGTHS = np.array([2.0, 5.0, 7.0, 3.0])


def our_step(p, weight, G: int, advantage) -> np.ndarray:
    """E over all ordered groups of G of the step with the advantage that the runs use."""
    drawn = np.array(list(itertools.product(range(len(p)), repeat=G)))
    A = advantage(torch.tensor(RIGHT[drawn]), unbiased=True, epsilon=0.0).numpy()
    steps = (weight[drawn] * A)[:, :, None] * (np.eye(len(p))[drawn] - p)
    return p[drawn].prod(1) @ steps.mean(1)


@pytest.mark.parametrize("G", [2, 5])
def test_the_expected_step_of_grpo_n_is_the_solve_rate_times_grpos(G):
    for seed in range(5):
        p, _ = instance(seed, V=4)
        alike, by_length = np.ones(4), 1 / LENGTHS
        full, alone = our_step(p, alike, G, grpo), our_step(p, alike, G, failures_only)
        assert abs(alone).max() > 1e-6
        np.testing.assert_allclose(alone, (p @ RIGHT) * full, atol=1e-14)
        # 1/|y| adds a step against E[1/|y|], whatever the rewards are
        full, alone = our_step(p, by_length, G, grpo), our_step(p, by_length, G, failures_only)
        extra = alone - (p @ RIGHT) * full
        slope = p * (by_length - p @ by_length)
        c = -(extra @ slope) / (slope @ slope)
        assert c > 0
        np.testing.assert_allclose(extra, -c * slope, atol=1e-14)


# ---- Theorem 1


def test_theorem_1_is_the_mean_of_lemma_1_for_a_fixed_advantage():
    for seed in range(5):
        p, advantage = instance(seed)
        mean = sum(
            p[v] * formulas.logit_update(p, v, advantage=advantage[v], eta=0.1)
            for v in range(len(p))
        )
        update = formulas.expected_logit_update(p, advantage, eta=0.1)
        np.testing.assert_allclose(update, mean, atol=1e-14)
        # as printed: pi(v) [(1 - pi(v)) A(v) - sum over u != v]
        for v in range(len(p)):
            others = sum(p[u] * advantage[u] for u in range(len(p)) if u != v)
            printed = 0.1 * p[v] * ((1 - p[v]) * advantage[v] - others)
            assert update[v] == pytest.approx(printed, abs=1e-14)
        shifted = formulas.expected_logit_update(p, advantage + 5, eta=0.1)
        np.testing.assert_allclose(shifted, update, atol=1e-14)


@pytest.mark.parametrize("G", [1, 2, 3, 5])
def test_theorem_1_with_a_group_baseline_has_the_factor_1_minus_1_over_G(G):
    p, r = instance(3, V=4)
    exact = expected_over_groups(p, r, G, negative_only=False)
    update = formulas.expected_group_update(p, r, eta=1.0, G=G)
    np.testing.assert_allclose(update, exact, atol=1e-14)
    printed = formulas.expected_logit_update(p, r, eta=1.0)
    np.testing.assert_allclose(exact, (1 - 1 / G) * printed, atol=1e-14)


def test_expected_path_takes_the_expected_steps():
    steps, z = [0, 1, 3], np.log(P) * 2
    for negative_only in (False, True):
        how = {"G": 3, "negative_only": negative_only}
        path = formulas.expected_path(z, R, steps, eta=0.7, temperature=2.0, **how)
        logits, slow = z, [P]
        for _ in range(3):
            logits = logits + 0.7 * expected_over_groups(
                formulas.softmax(logits, 2.0), R, 3, negative_only
            )
            slow.append(formulas.softmax(logits, 2.0))
        np.testing.assert_allclose(path, [slow[i] for i in steps], atol=1e-12)


# ---- Remark 2


def test_others_fall_exactly_where_small_steps_say_so():
    kinds = set()
    for seed in range(40):
        p, _ = instance(seed)
        for v in range(len(p)):
            for sign in (1, -1):
                dz = formulas.logit_update(p, v, advantage=sign, eta=1e-5)
                change = formulas.softmax(np.log(p) + dz) - p
                assert sign * change[v] > 0  # of v itself Remark 2 is right
                falls = formulas.others_fall(p, v)
                others = np.arange(len(p)) != v
                assert ((sign * change < 0)[others] == falls[others]).all()
                assert not falls[v]
                kinds |= set(falls[others].tolist())
    assert kinds == {True, False}
