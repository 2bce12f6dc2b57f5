from dataclasses import replace

import pytest
import torch
from refuses import refuses

from common.methods import binding, theory

ASKED = theory.compose(["method=grpo", "G=4"])


def per_prompt(rewards, **_):
    return rewards.mean(1)


def not_finite(rewards, **_):
    return rewards / rewards.sum(1, keepdim=True)


def as_list(rewards, **_):
    return rewards.tolist()


@pytest.mark.parametrize(
    ("advantage", "given"),
    [(per_prompt, "(2,)"), (as_list, "list"), (not_finite, "[nan, nan, nan]")],
)
def test_an_advantage_gives_a_finite_number_for_each_reward(advantage, given):
    bound = replace(binding.bind(ASKED.method), advantage=advantage)
    rewards = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    seen = {"correct": rewards == 1, "lengths": torch.ones(2, 3)}
    with refuses("method.advantage", f"test_binding.{advantage.__name__}") as caught:
        binding.advantages(bound, rewards, arguments={}, **seen)
    assert given in str(caught.value)


def one_number(log_prob, old_log_prob, advantages, mask):
    return (log_prob - old_log_prob).sum()


def per_response(log_prob, old_log_prob, advantages, mask):
    return log_prob.sum(1), log_prob.sum(1) > 0


def scalar(mask):
    return mask.sum()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"loss": one_number}, "method.loss"),
        ({"loss": per_response}, "method.loss"),
        ({"aggregate": scalar}, "method.aggregation"),
    ],
)
def test_a_loss_and_an_aggregation_give_a_number_for_each_token(change, key):
    bound = replace(binding.bind(ASKED.method), **change)
    (function,) = change.values()
    with refuses(key, f"test_binding.{function.__name__}"):
        binding.check(bound, ASKED.G, ASKED.reward)
