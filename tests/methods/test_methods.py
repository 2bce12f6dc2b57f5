import math

import pytest
import torch
from refuses import refuses
from tensors import assert_close, rows

from common.advantages.group import focal, grpo
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


def test_focal_refuses_other_rewards_and_negative_gamma():
    for bad in (0.5, 2.0, -1.0, float("nan")):
        with refuses("reward"):
            focal_of(rows([0, bad, 1]), gamma=1.0, unbiased=True, epsilon=1e-6)
    with refuses("method.advantage.gamma", "-0.5"):
        focal_of(rows([0, 1]), gamma=-0.5, unbiased=True, epsilon=1e-6)


def test_what_is_correct_is_given_and_not_read_off_the_rewards():
    rewards, correct = rows([3, -2, -2, -2]), torch.tensor([[True, False, False, False]])
    same = focal_of(rows([1, 0, 0, 0]), gamma=1.0, unbiased=True, epsilon=0.0)
    assert_close(focal(rewards, correct=correct, gamma=1.0, unbiased=True, epsilon=0.0), same)
    for mask in (~correct[:, :2], correct.double()):
        with pytest.raises(UserError):
            focal(rewards, correct=mask, gamma=1.0, unbiased=True, epsilon=0.0)
