"""Our command and trainer: flags, what is checked before Ray starts, and a controller's state
across checkpoints. verl's own steps are replaced; nothing is trained here."""

import json
import math
import shlex

import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import validate_config

from common import controllers
from common.advantages import sign
from common.backends.verl import main, methods, plugin, trainer
from common.config.files import ROOT
from common.errors import UserError

FADE = dict(alpha_max=3.0, ema="smoothing", beta=0.02, target_entropy=None, target_fraction=0.5)


def configured(*arguments: str):
    """The configuration that our command composes, for a batch of one group a micro-batch."""
    GlobalHydra.instance().clear()
    with initialize_config_module("verl.trainer.config", version_base=None):
        sizes = ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8"]
        sizes += ["actor_rollout_ref.rollout.n=8"]
        return compose("ppo_trainer", overrides=main.expand([*arguments, *sizes]))


# ---- flags and preflight


@pytest.mark.parametrize("name", [x for x in methods.names() if not methods.not_in_verl(x)])
def test_every_method_passes_from_its_flags_to_the_made_up_group(name):
    extra = []
    if name == "fade_log_schedule":
        extra = ["trainer.total_training_steps=100"]
    config = configured(f"method={name}", *extra)
    main.preflight(config)
    assert config.algorithm.adv_estimator == f"rlvr_{name}"
    actor = config.actor_rollout_ref.actor
    method = methods.compose(name)
    assert actor.entropy_coeff == method.entropy_coef
    in_reward = bool(method.get("kl_in_reward"))
    assert config.algorithm.use_kl_in_reward == in_reward
    assert actor.use_kl_loss == (method.kl_coef > 0 and not in_reward)
    if name == "dr_grpo":
        assert actor.loss_scale_factor == config.data.max_response_length == 512


def test_a_loss_that_looks_at_more_than_verl_hands_over_is_refused():
    with pytest.raises(UserError, match=r"method=simko: its loss looks at entropy, top_log_prob"):
        main.preflight(configured("method=simko"))


def test_flags_after_method_change_it():
    config = configured("+algorithm.method.gamma=2", "method=f_grpo")
    main.preflight(config)
    assert config.algorithm.method.gamma == 2


def test_verls_own_methods_pass():
    config = configured("algorithm.adv_estimator=grpo")
    before = OmegaConf.to_container(config)
    main.preflight(config)
    assert OmegaConf.to_container(config) == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["method=f_grop"], "method=f_grop: .*f_grpo"),
        (["method=f_grpo", "+algorithm.method.gama=1"], r"algorithm\.method\.gama=1: unknown"),
        (["method=f_grpo", "+algorithm.method.gamma=-1"], "gamma=-1: must be"),
        (
            ["method=fade", "+algorithm.controller.bta=1"],
            r"algorithm\.controller\.bta=1: unknown",
        ),
        (["method=fade", "+algorithm.method.alpha=1"], "alpha=1: the controller of method fade"),
        (["method=fade", "trainer.v1.trainer_mode=colocate_async"], "colocate_async: the contr"),
        (
            ["method=grpo", "+actor_rollout_ref.actor.policy_loss.method.eps=1"],
            r"policy_loss\.method\.eps=1: unknown",
        ),
        (["method=grpo", "actor_rollout_ref.actor.loss_agg_mode=token-sum"], "token-sum: method"),
        (["algorithm.adv_estimator=rlvr_t2t"], r"\+algorithm\.method\.max_tokens=\$\{data"),
    ],
)
def test_what_does_not_fit_is_refused_before_ray_starts(flags, message):
    with pytest.raises(UserError, match=message):
        main.preflight(configured(*flags))


# ---- the asynchronous trainer of docs/cluster-gpu.md, which needs GPUs


def asynchronous() -> list[str]:
    """The flags of the documented command."""
    text = (ROOT / "docs" / "cluster-gpu.md").read_text()
    (block,) = [part for part in text.split("```sh") if "trainer_mode=separate_async" in part]
    return shlex.split(block.split("```")[0].replace("\\\n", " "))[3:]


def test_the_documented_asynchronous_command_passes_verls_checks(monkeypatch):
    config = configured(*asynchronous())
    assert config.trainer.v1.trainer_mode == "separate_async"
    validate_config(config=config, use_reference_policy=False, use_critic=False)
    main.preflight(config)
    monkeypatch.setattr(
        PPOTrainer, "__init__", lambda self, config: setattr(self, "config", config)
    )
    made = PPOTrainerSeparateAsync(config)
    assert not made._enable_hybrid_replicas
    responses = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    assert responses % (config.trainer.nnodes * config.trainer.n_gpus_per_node) == 0
    made.config.actor_rollout_ref.rollout.checkpoint_engine.backend = "naive"
    with pytest.raises(AssertionError, match="nccl/nixl/mooncake"):  # what a CPU has
        PPOTrainerSeparateAsync(made.config)


# ---- the controller's state


class Batch:
    keys = ("a_0_0",)
    partition_id = "train"


@pytest.fixture
def made(monkeypatch, tmp_path):
    """made(name, *flags) -> a MethodTrainer whose parent only notes what it is handed."""
    handed = []

    def note(self, batch, metrics):
        algorithm = self.config.algorithm
        controlled = algorithm.get("controlled", None) or [algorithm.method]
        handed.extend(OmegaConf.to_container(OmegaConf.create(list(controlled))))
        return batch

    def save(self):
        folder = tmp_path / f"global_step_{self.global_steps}"
        assert (folder / trainer.STATE).exists()  # ours comes before verl calls it the latest
        (tmp_path / "latest_checkpointed_iteration.txt").write_text(str(self.global_steps))

    def load(self):
        latest = tmp_path / "latest_checkpointed_iteration.txt"
        self.global_steps = int(latest.read_text()) if latest.exists() else 0

    def build(self, config):
        self.config = config

    monkeypatch.setattr(PPOTrainerSync, "__init__", build)
    monkeypatch.setattr(PPOTrainerSync, "_compute_advantage", note)
    monkeypatch.setattr(PPOTrainerSync, "_save_checkpoint", save)
    monkeypatch.setattr(PPOTrainerSync, "_load_checkpoint", load)

    def make(name: str, *flags: str):
        clock = [] if any("clock" in flag for flag in flags) else ["+algorithm.clock=rollout"]
        where = f"trainer.default_local_dir={tmp_path}"
        config = configured(f"method={name}", where, *clock, *flags)
        new = trainer.MethodTrainer(config)
        new._load_checkpoint()
        return new, handed

    return make


def feed(monkeypatch, solved: list[float], log_probs: list[list[float]]):
    """What the transfer queue answers: rewards and old log-probs of a step, padding included."""
    mask = torch.tensor([[1, 1], [1, 0], [1, 1], [0, 0]])
    scores = torch.zeros(4, 2)
    scores[:3, 0] = torch.tensor(solved)
    old = torch.zeros(4, 2)
    old[:3] = torch.tensor(log_probs)
    old[mask == 0] = math.inf  # padding must not reach the entropy
    fields = {"response_mask": mask, "rm_scores": scores, "old_log_probs": old}
    answer = TensorDict(fields, batch_size=4)
    monkeypatch.setattr(
        TensorDict, "to_padded_tensor", lambda self: self
    )  # ours has no ragged rows
    monkeypatch.setattr(trainer.tq, "kv_batch_get", lambda **_: answer)


def test_the_controller_sees_solve_rate_and_entropy_and_sets_the_advantage(made, monkeypatch):
    one, handed = made("fade")
    metrics = {}
    feed(monkeypatch, [1, 0, 1], [[-1.0, -2.0], [-0.5, 0.0], [-3.0, -1.0]])
    one.global_steps = 1
    one._compute_advantage(Batch, metrics)
    # Three of four rows are real: solve rate 2/3; token means 3/2, 1/2, 2, their mean 4/3.
    solve_rate, entropy = 2 / 3, 4 / 3
    assert metrics["method/solve_rate"] == pytest.approx(solve_rate)
    assert metrics["method/entropy"] == pytest.approx(entropy)
    state, arguments = controllers.fade(
        {}, solve_rate=solve_rate, entropy=entropy, step=1, adapt="both", **FADE
    )
    assert one.state == pytest.approx(state)
    assert handed == [pytest.approx(arguments)]
    assert metrics["method/alpha"] == pytest.approx(arguments["alpha"])


def test_the_advantage_is_handed_what_each_response_was_drawn_with(made, monkeypatch):
    one, _ = made("ucpo", "+algorithm.method.tau=0.3")
    feed(monkeypatch, [1, 0, 1], [[-1.0, -2.0], [-0.5, 0.0], [-3.0, -1.0]])
    one.global_steps = 1
    one._compute_advantage(Batch, {})
    assert list(one.config.algorithm.log_probs) == [-3.0, -0.5, -4.0, 0.0]  # the last is padding


def test_the_clock_of_algorithm_2_ticks_at_every_optimiser_step(made, monkeypatch):
    sizes = ["data.train_batch_size=2", "actor_rollout_ref.actor.ppo_mini_batch_size=1"]
    one, handed = made("fade", "+algorithm.clock=optimiser_step", *sizes)
    fields = {
        "response_mask": torch.ones(4, 2),
        "rm_scores": torch.tensor([[1.0, 0], [0, 0], [1, 0], [1, 0]]),
        "old_log_probs": torch.tensor([[-1.0, -1], [-2, -2], [-3, -3], [-4, -4]]),
        "uid": torch.tensor([0, 1, 0, 1]),
    }
    answer = TensorDict(fields, batch_size=4)
    monkeypatch.setattr(TensorDict, "to_padded_tensor", lambda self: self)
    monkeypatch.setattr(trainer.tq, "kv_batch_get", lambda **_: answer.clone())
    one.global_steps = 3  # ticks 5 and 6: first the group of rows 0 and 2, then that of 1 and 3
    one._compute_advantage(Batch, {})
    state, first = controllers.fade({}, solve_rate=1.0, entropy=2.0, step=5, adapt="both", **FADE)
    state, last = controllers.fade(state, solve_rate=0.5, entropy=3.0, step=6, adapt="both", **FADE)
    assert one.state == pytest.approx(state)
    assert handed == [pytest.approx(first), pytest.approx(last)]
    assert first["alpha"] != last["alpha"]
    config = one.config.algorithm
    uid = answer["uid"].numpy().astype(object)
    found, _ = plugin.estimator("fade")(fields["rm_scores"], fields["response_mask"], uid, config)
    rewards = fields["rm_scores"].sum(1)[torch.tensor([[0, 2], [1, 3]])]
    both = [
        sign.fade(rewards[i : i + 1], correct=rewards[i : i + 1] == 1, **arguments)[0]
        for i, arguments in enumerate((first, last))
    ]
    assert found[[0, 2], 0].tolist() == pytest.approx(both[0].tolist())
    assert found[[1, 3], 1].tolist() == pytest.approx(both[1].tolist())


@pytest.mark.parametrize("name", ["fade", "ha_dw"])
def test_the_state_survives_save_and_load(name, made, monkeypatch, tmp_path):
    steps = [([1, 0, 1], 1.0), ([0, 0, 0], 0.7), ([1, 1, 1], 0.4), ([0, 1, 0], 0.3)]

    def run(one, numbers):
        for number in numbers:
            solved, surprise = steps[number - 1]
            feed(monkeypatch, solved, [[-surprise] * 2] * 3)
            one.global_steps = number
            metrics = {}
            one._compute_advantage(Batch, metrics)
            assert all(isinstance(value, float) for value in metrics.values())

    whole, handed = made(name)
    run(whole, [1, 2, 3, 4])
    uninterrupted = list(handed)
    handed.clear()
    first, _ = made(name)
    run(first, [1, 2])
    first._save_checkpoint()
    assert json.loads((tmp_path / "global_step_2" / trainer.STATE).read_text()) == first.state
    second, _ = made(name)
    assert second.global_steps == 2
    assert second.state == first.state
    run(second, [3, 4])
    assert handed == uninterrupted
    assert second.state == whole.state
    # A fresh start in the middle would have shown.
    handed.clear()
    second.state = {}
    run(second, [3, 4])
    assert handed != uninterrupted[2:]


def test_resume_path_reads_the_state_of_that_folder(made, monkeypatch, tmp_path):
    one, _ = made("fade")
    feed(monkeypatch, [1, 0, 1], [[-1.0, -1.0]] * 3)
    one.global_steps = 3
    one._compute_advantage(Batch, {})
    one._save_checkpoint()
    elsewhere = tmp_path / "elsewhere" / "global_step_3"
    elsewhere.mkdir(parents=True)
    moved = tmp_path / "global_step_3" / trainer.STATE
    moved.rename(elsewhere / trainer.STATE)
    flags = ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={elsewhere}"]
    two, _ = made("fade", *flags)
    assert two.state == one.state
    with pytest.raises(UserError, match=r"global_step_3.controller\.json: missing"):
        made("fade")


def test_methods_without_a_controller_keep_nothing(made, monkeypatch):
    one, handed = made("f_grpo", "+algorithm.method.gamma=2")
    monkeypatch.setattr(trainer.tq, "kv_batch_get", None)
    one.global_steps = 1
    metrics = {}
    one._compute_advantage(Batch, metrics)
    assert (one.state, metrics, handed) == ({}, {}, [{"gamma": 2}])


def test_covariances_are_of_the_whole_step_and_of_advantages_without_token_weights(
    made, monkeypatch
):
    flags = ["+algorithm.covariances=true", "+algorithm.token_weights={group_size:3}"]
    one, _ = made("f_grpo", "+algorithm.method.gamma=2", *flags)
    feed(monkeypatch, [1, 0, 1], [[-1.0, -2.0], [-0.5, 0.0], [-3.0, -1.0]])
    data = trainer.tq.kv_batch_get()
    data["advantages"] = torch.tensor([[1.0, 1.0], [-2.0, 0.0], [4.0, 4.0], [0.0, 0.0]])

    def weigh(self, batch, node):
        data["advantages"] = data["advantages"] ** 3
        return batch

    monkeypatch.setattr(trainer.MethodTrainer, "_weigh", weigh)
    metrics = {}
    one._compute_advantage(Batch, metrics)
    assert data["advantages"][1, 0] == -8
    # five tokens: log-probs -1 -2 -0.5 -3 -1 (mean -1.5), advantages 1 1 -2 4 4 (mean 1.6), so
    # |c| = 0.3 0.3 3.6 3.6 1.2 of 9
    held = [metrics[f"rlvr/covariance_top_{share}"] for share in ("0.0001", "0.2", "0.4", "0.8")]
    assert held == pytest.approx([3.6 / 9, 3.6 / 9, 7.2 / 9, 8.7 / 9])
    assert sum(name.startswith("rlvr/covariance_top_") for name in metrics) == 12
    data["advantages"] = torch.zeros(4, 2)
    metrics = {}
    one._compute_advantage(Batch, metrics)
    assert metrics == {}  # no group with a gradient: missing, not 0
