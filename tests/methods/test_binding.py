"""What a method's own functions give is looked at before anything is computed from it."""

from dataclasses import replace

import pytest
import torch

from common.errors import UserError
from common.methods import binding, theory

ASKED = theory.compose(["method=grpo", "G=4"])


def per_prompt(rewards, **_):
    return rewards.mean(1)


def not_finite(rewards, **_):
    return rewards / rewards.sum(1, keepdim=True)


def as_list(rewards, **_):
    return rewards.tolist()


@pytest.mark.parametrize(
    ("advantage", "said"),
    [
        (per_prompt, r"per_prompt: gave \(2,\) where a tensor of shape \(2, 3\) is needed"),
        (as_list, r"as_list: gave list where a tensor of shape \(2, 3\) is needed"),
        (not_finite, r"not_finite: gave \[nan, nan, nan\] for the rewards \[0.0, 0.0, 0.0\]"),
    ],
)
def test_an_advantage_gives_a_finite_number_for_each_reward(advantage, said):
    bound = replace(binding.bind(ASKED.method), advantage=advantage)
    rewards = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    seen = {"correct": rewards == 1, "lengths": torch.ones(2, 3)}
    with pytest.raises(UserError, match=rf"method\.advantage=test_binding\.{said}"):
        binding.advantages(bound, rewards, arguments={}, **seen)


def one_number(log_prob, old_log_prob, advantages, mask):
    return (log_prob - old_log_prob).sum()


def per_response(log_prob, old_log_prob, advantages, mask):
    return log_prob.sum(1), log_prob.sum(1) > 0


def scalar(mask):
    return mask.sum()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"loss": one_number}, r"method\.loss=test_binding\.one_number: gave one Tensor; give"),
        ({"loss": per_response}, r"method\.loss=test_binding\.per_response: gave \(4,\) where"),
        ({"aggregate": scalar}, r"method\.aggregation=test_binding\.scalar: gave \(\) where"),
    ],
)
def test_a_loss_and_an_aggregation_give_a_number_for_each_token(change, said):
    bound = replace(binding.bind(ASKED.method), **change)
    with pytest.raises(UserError, match=said):
        binding.check(bound, ASKED.G, ASKED.reward)
