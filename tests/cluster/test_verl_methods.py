"""Our advantage and loss as verl calls them, and what is refused; test_verl_ranks.py compares every
method's gradient with the local loop's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from refuses import refuses

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from omegaconf import OmegaConf
from verl.trainer.ppo import core_algos
from verl.workers.config import FSDPActorConfig

from common.backends.verl import config, plugin
from common.experiment import load

PLACE = config.Place("cpu", 1, 1, None, Path("work"), "model")
P, G, T = 2, 3, 4
CLIP = {"function": "common.losses.clip.ppo_clip", "eps_low": 0.2, "eps_high": 0.28}
F_GRPO = {
    "function": "common.advantages.group.focal",
    "gamma": 1.0,
    "unbiased": False,
    "epsilon": 0.0,
}


def advantages(rewards: torch.Tensor, uid: list, lengths: list[int], **algorithm) -> torch.Tensor:
    """Of rows with these rewards, (B,), and lengths, as (B, T)."""
    mask = (torch.arange(T) < torch.tensor(lengths)[:, None]).float()
    scores = torch.zeros(len(uid), T)
    scores[:, 0] = rewards
    given = {"reward_correct": 1.0} | algorithm
    estimate = core_algos.get_adv_estimator_fn(config.NAME)
    found, _ = estimate(scores, mask, np.array(uid, dtype=object), config=OmegaConf.create(given))
    assert found[mask == 0].abs().sum() == 0
    return found[:, 0]


def test_rows_come_in_any_order_and_verls_padding_belongs_to_no_group():
    mean_only = {"function": "common.advantages.group.mean_only"}
    rewards = torch.tensor([1.0, 0, 0, 9, 0, 1, 1])
    uid = ["a", "b", "a", "padding", "b", "a", "b"]
    found = advantages(rewards, uid, [1, 2, 4, 0, 3, 1, 2], method=mean_only)
    expected = [1 / 3, -1 / 3, -2 / 3, 0, -1 / 3, 1 / 3, 2 / 3]
    assert found.tolist() == pytest.approx(expected)


def test_what_a_method_sees_of_responses_is_of_the_rows_that_are_no_padding():
    rare = {"function": "common.advantages.outcomes.batch_exploration", "coefficient": 1.0}
    rare |= {"unbiased": False, "epsilon": 0.0}
    uid, lengths = ["a", "b", "padding", "a", "b"], [1, 2, 0, 4, 3]
    seen = {"outcomes": [0, 0, 0, 1]}  # a's two answers are the same, b's differ
    found = advantages(torch.zeros(5), uid, lengths, method=rare, of_responses=seen)
    assert found.tolist() == pytest.approx([-1 / 2, 0, 0, -1 / 2, 0])
    assert plugin.asked(rare, "outcomes", "log_probs") == ["outcomes"]
    with refuses("method.advantage", rare["function"]) as caught:
        advantages(torch.zeros(5), uid, lengths, method=rare)
    assert "outcomes" in str(caught.value)


def test_the_right_reward_is_the_experiments():
    rewards, uid, lengths = torch.tensor([1.0, 0, 0, 1, 1, 0]), list("aaabbb"), [1] * 6
    plain = advantages(rewards, uid, lengths, method=F_GRPO)
    signed = advantages(2 * rewards - 1, uid, lengths, method=F_GRPO)
    doubled = advantages(2 * rewards, uid, lengths, method=F_GRPO, reward_correct=2.0)
    for found in (signed, doubled):
        assert found.tolist() == pytest.approx(plain.tolist(), abs=2e-6)


def test_rollout_correction_weights_multiply_the_loss():
    actor = FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=G,
        ppo_micro_batch_size_per_gpu=G,
        policy_loss=plugin.MethodLossConfig(loss_mode=config.NAME, method=CLIP),
    )
    ones, weights = torch.ones(2, 3), torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.5]])
    loss = core_algos.get_policy_loss_fn(config.NAME)
    found, _ = loss(0 * ones, 0 * ones, ones, ones, "token-mean", actor, weights)
    assert found.item() == pytest.approx(-7.5 / 6)  # L = -1 for each token; weights sum to 7.5


@pytest.mark.parametrize("name", ["cluster/distill15b_clip_cov", "cw_grpo_repository"])
def test_token_weights_where_they_are_not_the_method_are_refused(name):
    x = load([f"experiment={name}", "backend=verl"], "cov_grpo")
    assert config.settings(x, PLACE, 64, 4096, {})["algorithm.token_weights"]
    twice = replace(x, optim=replace(x.optim, mini_batches=2))
    with refuses("optim.mini_batches", 2):
        config.settings(twice, PLACE, 64, 4096, {})
    if name == "cw_grpo_repository":
        mean = {"_target_": "common.losses.aggregate.token_mean"}
        with refuses("method.aggregation._target_", mean["_target_"]):
            other = replace(x, method=replace(x.method, aggregation=mean))
            config.settings(other, PLACE, 64, 4096, {})
