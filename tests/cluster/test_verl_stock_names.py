"""Our methods by name in verl's own configuration: what a name means there and what is refused.
test_verl_stock.py trains with them."""

import importlib
from copy import deepcopy

import numpy as np
import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.workers.config import FSDPActorConfig, PolicyLossConfig

import rlvr_papers.verl
from common.backends.verl import config, plugin, stock, trainer
from common.errors import UserError
from common.methods.binding import advantages, bind, observe
from common.methods.catalogue import method, names

P, G, T = 3, 4, 5
LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"
IN_REWARD = "algorithm.use_kl_in_reward"
SAMPLERS, LIKELY = ["dlc", "dapo_iac_dlc"], ["ucpo", "unlikeliness"]
UNKNOWN = [*SAMPLERS, *LIKELY, "batch_exploration", "cue_grpo", "ips_grpo", "uniqueness"]
VERLS = ["grpo", "rloo"]  # estimators of these names are verl's


def composed(name: str, keys: dict | None = None) -> DictConfig:
    """verl's own configuration with a method's name, and the other keys that it needs."""
    made = deepcopy(config.defaults())
    needed = {"algorithm.adv_estimator": name, "trainer.total_training_steps": 10, MINI: 1024}
    for key, value in (needed | {"actor_rollout_ref.rollout.n": G} | (keys or {})).items():
        OmegaConf.update(made, key, value, force_add=True)
    return made


REFUSED = [
    *((name, {}, f"algorithm.adv_estimator={name}: ") for name in UNKNOWN),
    ("f_grpo", {IN_REWARD: True}, "algorithm.use_kl_in_reward=True: .*False"),
    ("rloo_verl", {}, "algorithm.use_kl_in_reward=False: .*True"),
    ("gspo_n", {}, "policy_loss.loss_mode=vanilla: .*set gspo_n"),
    ("cw_grpo", {MINI: 256}, "ppo_mini_batch_size=256: .*one optimiser step"),
    ("fade", {"trainer.v1.trainer_mode": "colocate_async"}, "trainer_mode=colocate_async: .*sync"),
    ("f_grpo", {"algorithm.rlvr": {"gama": 1.0}}, "gama.*gamma"),
]


@pytest.mark.parametrize(("name", "keys", "word"), REFUSED)
def test_what_verl_would_not_train_is_refused_by_name(name, keys, word):
    with pytest.raises(UserError, match=word):
        TRAINER_REGISTRY["sync"](composed(name, keys))


def test_a_run_without_a_method_of_ours_has_verls_own_trainer():
    made = composed("grpo")
    assert stock.trainer(lambda given: (given is made, deepcopy(given)), made) == (True, made)
    assert TRAINER_REGISTRY["sync"].args == (PPOTrainerSync,)
    with pytest.raises(UserError, match=r"use_v1=False: .*f_grpo"):
        core_algos.get_adv_estimator_fn("f_grpo")(config=composed("f_grpo").algorithm)


def test_every_estimator_gives_the_librarys_advantages_bit_for_bit(monkeypatch):
    monkeypatch.setattr(trainer, "MethodTrainer", lambda given: given)
    torch.manual_seed(0)
    lengths = torch.randint(1, T + 1, (P * G,))
    rows = torch.randperm(P * G).view(P, G).sort(1).values  # sums are in the order of the batch
    rows = rows[rows[:, 0].argsort()]
    uid = np.empty(P * G, dtype=object)
    for i, group in enumerate(rows.tolist()):
        uid[group] = f"prompt {i}"
    right = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 1], [0, 0, 0, 0]])
    mask, scores = (torch.arange(T) < lengths[:, None]).float(), torch.zeros(P * G, T)
    scores[rows.flatten(), 0] = right.flatten()
    tried = sorted(set(names()) - {*UNKNOWN, *VERLS})
    for name in tried:
        wanted = method(name, max_tokens=512, steps=10)
        made = composed(name, {LOSS: name, IN_REWARD: wanted.kl_in_reward})
        assert TRAINER_REGISTRY["sync"](made) is made
        bound = bind(wanted)
        _, arguments = observe(bound, {}, solve_rate=0.4, entropy=0.8, step=1)
        OmegaConf.update(made, "algorithm.controlled", [arguments], force_add=True)
        seen = {"correct": right == 1, "lengths": lengths[rows].float()}
        expected = torch.zeros(P * G)
        expected[rows] = advantages(bound, right, arguments=arguments, **seen)
        estimate = core_algos.get_adv_estimator_fn(name)
        found, _ = estimate(
            token_level_rewards=scores, response_mask=mask, index=uid, config=made.algorithm
        )
        assert torch.equal(found, expected[:, None] * mask), name
    assert len(tried) == 53


@pytest.mark.parametrize("name", ["f_grpo", "f_dapo", "f_cispo", "gspo_n", "ds_grpo", "cw_grpo"])
def test_a_loss_is_the_one_of_a_whole_experiment_with_the_numbers_of_its_file(name):
    torch.manual_seed(0)
    actor = dict(strategy="fsdp2", rollout_n=G, ppo_micro_batch_size_per_gpu=G)
    log_prob, old, A = (torch.randn(G, T) for _ in range(3))
    given = (old, log_prob, A, torch.ones(G, T), "token-mean")
    by_name = FSDPActorConfig(**actor, policy_loss=PolicyLossConfig(loss_mode=name))
    part = config.loss(method(name))
    written = plugin.MethodLossConfig(loss_mode=config.NAME, method=part)
    found = core_algos.get_policy_loss_fn(name)(*given, by_name)
    expected = core_algos.get_policy_loss_fn(config.NAME)(
        *given, FSDPActorConfig(**actor, policy_loss=written)
    )
    assert found == expected
    assert part["function"] == config.CLIPPED or name not in ("f_grpo", "f_dapo", "cw_grpo")


def test_a_run_says_which_keys_of_verls_are_not_the_methods():
    told = stock.differences(method("dr_grpo", max_tokens=512), composed("dr_grpo"))
    assert told == [
        "policy_loss.loss_mode=vanilla (dr_grpo)",
        "loss_agg_mode=token-mean (seq-mean-token-sum-norm)",
        "loss_scale_factor=None (512)",
    ]


def test_why_the_methods_are_not_in_verl_is_said_where_one_is_used(monkeypatch):
    """verl hides what a plugin raises, and says that it does not know the name."""
    for registry in ("ADV_ESTIMATOR_REGISTRY", "POLICY_LOSS_REGISTRY"):
        monkeypatch.setattr(core_algos, registry, {})
    monkeypatch.setattr(rlvr_papers, "CLASH", "another package `common` comes first")
    importlib.reload(rlvr_papers.verl)
    for get in (core_algos.get_adv_estimator_fn, core_algos.get_policy_loss_fn):
        with pytest.raises(ImportError, match="another package `common` comes first"):
            get("f_grpo")(config=None)
