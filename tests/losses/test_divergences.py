"""The divergences of what is rehearsed: by hand, their slopes, their limits."""

import math

import pytest
import torch

from common.losses.divergences import forward_kl, jensen_shannon

BOTH = pytest.mark.parametrize("divergence", [forward_kl, jensen_shannon])
RATIOS = [1e-6, 0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 30.0]  # u = pi / pi_ref


def of_ratios(divergence, ratios):
    """(f, df / d log pi) at each u, for a base model that gave every token 1 / 50."""
    ref = torch.full((1, len(ratios)), math.log(1 / 50), dtype=torch.float64)
    log_prob = (ref + torch.tensor([ratios], dtype=torch.float64).log()).requires_grad_()
    value = divergence(log_prob, ref)
    (slope,) = torch.autograd.grad(value.sum(), log_prob)
    return value[0].tolist(), slope[0].tolist()


def mean(divergence, policy, reference):
    log_prob, ref = (torch.tensor(p, dtype=torch.float64).log() for p in (policy, reference))
    return (ref.exp() @ divergence(log_prob, ref)).item()


def test_means_over_three_tokens_by_hand():
    """pi_ref = (1/2, 1/4, 1/4), pi = (1/4, 1/2, 1/4), m = (3/8, 3/8, 1/4)."""
    policy, reference = [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]
    # KL(pi_ref || pi) = 1/2 log 2 + 1/4 log 1/2
    assert mean(forward_kl, policy, reference) == pytest.approx(math.log(2) / 4)
    # KL(pi || m) = 1/4 log 2/3 + 1/2 log 4/3, and KL(pi_ref || m) is the same two terms
    by_hand = 2 * (math.log(2 / 3) / 4 + math.log(4 / 3) / 2)
    assert mean(jensen_shannon, policy, reference) == pytest.approx(by_hand)


def test_the_order_of_the_two_matters_to_the_kl_and_not_to_jensen_shannon():
    one, two = [0.7, 0.2, 0.1], [0.2, 0.3, 0.5]
    other_way = sum(q * math.log(q / p) for p, q in zip(one, two, strict=True))
    assert mean(forward_kl, one, two) == pytest.approx(other_way)  # KL(pi_ref || pi)
    assert mean(forward_kl, two, one) != pytest.approx(other_way)
    assert mean(jensen_shannon, one, two) == pytest.approx(mean(jensen_shannon, two, one))


def test_slopes_are_those_of_the_docstrings():
    assert of_ratios(forward_kl, RATIOS)[1] == pytest.approx([u - 1 for u in RATIOS])
    slopes = [u * math.log(2 * u / (u + 1)) for u in RATIOS]
    assert of_ratios(jensen_shannon, RATIOS)[1] == pytest.approx(slopes, abs=1e-12)


@BOTH
def test_never_negative_and_zero_at_the_base_model_alone(divergence):
    values, slopes = of_ratios(divergence, RATIOS)
    for u, value, slope in zip(RATIOS, values, slopes, strict=True):
        assert (abs(value) < 1e-12 and abs(slope) < 1e-12) if u == 1 else value > 1e-3


def test_near_the_base_model_they_are_one_half_and_one_quarter_of_the_square():
    d = 1e-3
    assert of_ratios(forward_kl, [math.exp(d)])[0][0] == pytest.approx(d**2 / 2, rel=1e-3)
    assert of_ratios(jensen_shannon, [math.exp(d)])[0][0] == pytest.approx(d**2 / 4, rel=1e-3)


def test_what_the_policy_gave_up_pulls_by_the_kl_alone():
    (kl,), (slope,) = of_ratios(forward_kl, [1e-30])
    assert kl == pytest.approx(30 * math.log(10) - 1)
    assert slope == pytest.approx(-1)
    (js,), (slope,) = of_ratios(jensen_shannon, [1e-30])
    assert js == pytest.approx(math.log(2))
    assert abs(slope) < 1e-25


@BOTH
def test_float32_is_exact_enough_where_training_is(divergence):
    d = torch.tensor([1e-4, -1e-3, 0.02, -3.0])
    single = divergence(d - 2.0, torch.full((4,), -2.0))
    double = divergence((d - 2.0).double(), torch.full((4,), -2.0).double())
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=3e-7)
