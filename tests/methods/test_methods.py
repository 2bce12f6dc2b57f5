"""The advantages of GRPO and F-GRPO against numbers worked by hand."""

import itertools
import math

import pytest
import torch
from refuses import refuses
from tensors import assert_close, rows

from common.advantages.group import focal, focal_weight, grpo
from common.errors import UserError


def focal_of(rewards, right=1.0, **given):
    """`focal`, where the responses with the reward `right` are correct."""
    return focal(rewards, correct=rewards == right, **given)


def test_grpo_by_hand():
    # One right of four: mean 1/4, centred 3/4 and -1/4, sum of squares 9/16 + 3/16 = 3/4.
    # Unbiased std = sqrt((3/4) / 3) = 1/2: A = 3/2, -1/2. Biased std = sqrt((3/4) / 4) = sqrt(3)/4:
    # A = 3/sqrt(3) = sqrt(3), -1/sqrt(3).
    group = rows([0, 1, 0, 0])
    assert_close(grpo(group, unbiased=True, epsilon=0.0), [[-0.5, 1.5, -0.5, -0.5]])
    third = 1 / math.sqrt(3)
    assert_close(grpo(group, unbiased=False, epsilon=0.0), [[-third, math.sqrt(3), -third, -third]])
    # Rewards -1 and 1 double the deviation and the std: the same advantages.
    assert_close(grpo(2 * group - 1, unbiased=True, epsilon=0.0), [[-0.5, 1.5, -0.5, -0.5]])
    # Two of two, unbiased: centred +-1/2, std = sqrt(1/2): A = +-1/sqrt(2).
    assert_close(
        grpo(rows([1, 0]), unbiased=True, epsilon=0.0), [[math.sqrt(0.5), -math.sqrt(0.5)]]
    )
    # Epsilon is added to the std: 3/4 / (1/2 + 1/4) = 1, -1/4 / (3/4) = -1/3.
    assert_close(grpo(group, unbiased=True, epsilon=0.25), [[-1 / 3, 1, -1 / 3, -1 / 3]])


def test_grpo_takes_any_rewards_and_groups_do_not_mix():
    # Rewards 1, 2, 6: mean 3, centred -2, -1, 3, unbiased variance 14 / 2 = 7.
    both = grpo(rows([1, 2, 6], [0, 0, 1]), unbiased=True, epsilon=0.0)
    assert_close(both[0], [-2 / math.sqrt(7), -1 / math.sqrt(7), 3 / math.sqrt(7)])
    assert_close(both[1], grpo(rows([0, 0, 1]), unbiased=True, epsilon=0.0)[0])


def test_focal_by_hand():
    # One right of four: mu = 1/4, 1 - mu = 3/4; GRPO gives 3/2 and -1/2.
    group, grpo_by_hand = rows([0, 1, 0, 0]), rows([-0.5, 1.5, -0.5, -0.5])
    for gamma, weight in {0.5: math.sqrt(3) / 2, 1.0: 0.75, 2.0: 0.5625}.items():
        out = focal_of(group, gamma=gamma, unbiased=True, epsilon=0.0)
        assert_close(out, weight * grpo_by_hand)
    # Three right of four: mu = 3/4, 1 - mu = 1/4, GRPO 1/2 and -3/2.
    out = focal_of(rows([1, 1, 0, 1]), gamma=0.5, unbiased=True, epsilon=0.0)
    assert_close(out, [[0.25, 0.25, -0.75, 0.25]])
    out = focal_of(rows([1, 1, 0, 1]), gamma=2.0, unbiased=True, epsilon=0.0)
    assert_close(out, [[1 / 32, 1 / 32, -3 / 32, 1 / 32]])


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_focal_weight_does_not_depend_on_the_reward_convention(gamma):
    groups = torch.tensor(list(itertools.product([0.0, 1.0], repeat=5)))
    correct = groups == 1
    zero_one = focal_weight(groups, correct=correct, gamma=gamma)
    assert torch.equal(zero_one, focal_weight(2 * groups - 1, correct=correct, gamma=gamma))
    assert zero_one.shape == (32, 1)
    assert zero_one[0] == 1  # nothing right
    assert zero_one[-1] == 0  # all right


@pytest.mark.parametrize("unbiased", [True, False])
def test_gamma_zero_is_grpo_exactly(unbiased):
    groups = torch.tensor(list(itertools.product([0.0, 1.0], repeat=6)))
    plain = grpo(groups, unbiased=unbiased, epsilon=1e-6)
    assert torch.equal(focal_of(groups, gamma=0.0, unbiased=unbiased, epsilon=1e-6), plain)


@pytest.mark.parametrize("reward", [0.0, 1.0, -1.0, 0.1])
@pytest.mark.parametrize("size", [2, 3, 7, 8, 32])
def test_equal_rewards_give_exactly_zero(reward, size):
    group = torch.full((3, size), reward)
    for unbiased in (True, False):
        for epsilon in (0.0, 1e-6):
            assert torch.equal(
                grpo(group, unbiased=unbiased, epsilon=epsilon), torch.zeros(3, size)
            )
            out = focal_of(group, reward, gamma=1.0, unbiased=unbiased, epsilon=epsilon)
            assert torch.equal(out, torch.zeros(3, size))


def test_groups_of_one_are_refused():
    for call in (
        lambda: grpo(rows([1]), unbiased=True, epsilon=1e-6),
        lambda: focal_of(rows([1]), gamma=1.0, unbiased=True, epsilon=1e-6),
    ):
        with refuses("sampling.group_size", 1):
            call()


def test_focal_refuses_other_rewards_and_negative_gamma():
    for bad in (0.5, 2.0, -1.0, float("nan")):
        with refuses("reward"):
            focal_of(rows([0, bad, 1]), gamma=1.0, unbiased=True, epsilon=1e-6)
    with refuses("method.advantage.gamma", "-0.5"):
        focal_of(rows([0, 1]), gamma=-0.5, unbiased=True, epsilon=1e-6)


def slow_focal(group: list[int], gamma: float, unbiased: bool, epsilon: float) -> list[float]:
    size, right = len(group), sum(group)
    if right in (0, size):
        return [0.0] * size
    mean = right / size
    variance = sum((reward - mean) ** 2 for reward in group) / (size - unbiased)
    weight = (1 - right / size) ** gamma
    return [weight * (reward - mean) / (math.sqrt(variance) + epsilon) for reward in group]


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7, 8])
def test_all_groups_against_a_slow_reference(size, unbiased):
    groups = list(itertools.product([0, 1], repeat=size))
    rewards = rows(*groups)
    for gamma in (0.0, 0.5, 1.0, 2.0):
        expected = [slow_focal(group, gamma, unbiased, 1e-6) for group in groups]
        out = focal_of(rewards, gamma=gamma, unbiased=unbiased, epsilon=1e-6)
        assert_close(out, expected)
        assert_close(out.sum(1), [0.0] * len(groups))
        if gamma == 0:
            assert_close(grpo(rewards, unbiased=unbiased, epsilon=1e-6), expected)


def test_what_is_correct_is_given_and_not_read_off_the_rewards():
    rewards, correct = rows([3, -2, -2, -2]), torch.tensor([[True, False, False, False]])
    same = focal_of(rows([1, 0, 0, 0]), gamma=1.0, unbiased=True, epsilon=0.0)
    assert_close(focal(rewards, correct=correct, gamma=1.0, unbiased=True, epsilon=0.0), same)
    for mask in (~correct[:, :2], correct.double()):
        with pytest.raises(UserError):
            focal(rewards, correct=mask, gamma=1.0, unbiased=True, epsilon=0.0)
