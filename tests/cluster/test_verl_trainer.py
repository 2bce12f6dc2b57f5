"""Our trainer: a controller's state across checkpoints, and what it logs. verl's own steps are
replaced; nothing is trained here."""

import json
import math

import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from omegaconf import OmegaConf
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import agg_loss

from common import controllers
from common.advantages import sign
from common.backends.verl import config, plugin, trainer, v1
from common.backends.verl.experiment_trainer import ExperimentTrainer
from common.experiment import load

FADE = dict(alpha_max=3.0, ema="smoothing", beta=0.02, target_entropy=None, target_fraction=0.5)


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

    def restore(self):
        latest = tmp_path / "latest_checkpointed_iteration.txt"
        self.global_steps = int(latest.read_text()) if latest.exists() else 0

    def build(self, config):
        self.config = config

    monkeypatch.setattr(v1.Trainer, "__init__", build)
    monkeypatch.setattr(v1.Trainer, "_compute_advantage", note)
    monkeypatch.setattr(v1.Trainer, "_save_checkpoint", save)
    monkeypatch.setattr(v1.Trainer, "_load_checkpoint", restore)

    def make(name: str, *flags: str):
        x = load([f"method={name}", "backend=verl", "method.clock=rollout", *flags], "f_grpo")
        place = config.Place("cpu", 1, 1, None, tmp_path, "model")
        settings = config.settings(x, place, 64, 4096, {})
        settings["trainer.default_local_dir"] = str(tmp_path)
        new = trainer.MethodTrainer(config.compose(settings))
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
    monkeypatch.setattr(v1, "get", lambda *_: answer)


@pytest.mark.parametrize(("of_log_prob", "expected"), [("null", 0.69921875), ("1", 1.0)])
def test_every_log_prob_of_a_step_has_their_own_temperature(made, of_log_prob, expected):
    """verl reads the temperature of its passes from the samplers' key."""
    words = ["sampling.temperature=0.7", f"sampling.log_prob_temperature={of_log_prob}"]
    one, _ = made("grpo", *words, "method.kl_coef=0.1")
    one.__class__ = ExperimentTrainer
    rollout = one.config.actor_rollout_ref.rollout
    assert rollout.temperature == 0.69921875  # 0.7 in bfloat16: what the samplers are given
    one.on_train_begin()
    one.ref_in_actor, one.distillation_config, passes = False, None, []

    class Workers:
        def __getattr__(self, name):
            def called(batch):
                passes.append((name, batch.extra_info["temperature"]))
                raise InterruptedError

            return called

    one.actor_rollout_wg = one.ref_policy_wg = Workers()
    batch = Batch()
    batch.extra_info = {}
    for step in (one._compute_old_log_prob, one._compute_ref_log_prob, one._update_actor):
        with pytest.raises(InterruptedError):
            step(batch, {})
    names = ("compute_log_prob", "compute_ref_log_prob", "update_actor")
    assert passes == [(name, expected) for name in names]


def test_the_entropy_of_a_row_with_token_sums_is_in_nats_a_token(made, monkeypatch):
    """Three tokens of 0.5, 1 and 0.9 nats in two responses; the last row is verl's padding."""
    one, _ = made("dr_grpo", "sampling.max_tokens=100")
    one.__class__ = ExperimentTrainer
    mask = torch.tensor([[1, 1], [1, 0], [0, 0]])
    fields = {"entropy": torch.tensor([[0.5, 1.0], [0.9, 0], [7, 7]]), "response_mask": mask}
    logged = {}

    def verls(self, batch, metrics):
        actor = self.config.actor_rollout_ref.actor
        how = actor.loss_agg_mode, actor.loss_scale_factor
        said = agg_loss(fields["entropy"], mask, how[0], loss_scale_factor=how[1])
        metrics["actor/entropy"] = logged["verl"] = said.item()
        return batch

    monkeypatch.setattr(v1.Trainer, "_compute_old_log_prob", verls)
    monkeypatch.setattr(TensorDict, "to_padded_tensor", lambda self: self)
    monkeypatch.setattr(v1, "get", lambda *_: TensorDict(fields, batch_size=3))
    metrics = {}
    assert one._compute_old_log_prob(Batch, metrics) is Batch
    assert metrics == {"actor/entropy": pytest.approx(0.8)}
    assert logged["verl"] < 0.02


def test_the_controller_sees_solve_rate_and_entropy_and_sets_the_advantage(made, monkeypatch):
    one, handed = made("fade")
    metrics = {}
    feed(monkeypatch, [1, 0, 1], [[-1.0, -2.0], [-0.5, 0.0], [-3.0, -1.0]])
    one.global_steps = 1
    one._compute_advantage(Batch, metrics)
    # Three of four rows are real: solve rate 2/3; token means 3/2, 1/2, 2, their mean 4/3.
    seen = {"solve_rate": 2 / 3, "entropy": 4 / 3}
    state, arguments = controllers.fade({}, **seen, step=1, adapt="both", **FADE)
    assert one.state == pytest.approx(state)
    assert handed == [pytest.approx(arguments)]
    logged = {f"method/{key}": value for key, value in (seen | arguments).items()}
    assert metrics == pytest.approx(logged)


def test_the_clock_of_algorithm_2_ticks_at_every_optimiser_step(made, monkeypatch):
    sizes = ["sampling.prompts=2", "sampling.group_size=2", "optim.mini_batches=2"]
    one, handed = made("fade", "method.clock=optimiser_step", *sizes)
    fields = {
        "response_mask": torch.ones(4, 2),
        "rm_scores": torch.tensor([[1.0, 0], [0, 0], [1, 0], [1, 0]]),
        "old_log_probs": torch.tensor([[-1.0, -1], [-2, -2], [-3, -3], [-4, -4]]),
        "uid": torch.tensor([0, 1, 0, 1]),
    }
    answer = TensorDict(fields, batch_size=4)
    monkeypatch.setattr(TensorDict, "to_padded_tensor", lambda self: self)
    monkeypatch.setattr(v1, "get", lambda *_: answer.clone())
    one.global_steps = 3  # ticks 5 and 6: first the group of rows 0 and 2, then that of 1 and 3
    one._compute_advantage(Batch, {})
    state, first = controllers.fade({}, solve_rate=1.0, entropy=2.0, step=5, adapt="both", **FADE)
    state, last = controllers.fade(state, solve_rate=0.5, entropy=3.0, step=6, adapt="both", **FADE)
    assert one.state == pytest.approx(state)
    assert handed == [pytest.approx(first), pytest.approx(last)]
    assert first["alpha"] != last["alpha"]
    uid = answer["uid"].numpy().astype(object)
    scores, mask = fields["rm_scores"], fields["response_mask"]
    found, _ = plugin.advantage(scores, mask, uid, one.config.algorithm)
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


def test_covariances_are_of_the_whole_step_and_of_advantages_without_token_weights(
    made, monkeypatch
):
    one, _ = made("cw_grpo", "covariances=true", "optim.mini_batches=1")
    feed(monkeypatch, [1, 0, 1], [[-1.0, -2.0], [-0.5, 0.0], [-3.0, -1.0]])
    data = v1.get(Batch)
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


def test_a_cosine_falls_over_its_own_steps_and_not_over_the_runs(made, monkeypatch):
    """What verl's scheduler is told by the trainer of every run."""
    words = ["optim.steps=3", "optim.decay_over=300", "optim.decay_to=0.1", "optim.warmup_steps=30"]
    one, _ = made("grpo", *words)
    optim = one.config.actor_rollout_ref.actor.optim
    optim.total_training_steps = 3  # as verl sets it before it makes its workers
    monkeypatch.setattr(trainer.MethodTrainer, "_init_resource_pool_mgr", lambda self: None)
    one.role_worker_mapping = {}
    one.__class__ = ExperimentTrainer
    one._init_resource_pool_mgr()
    assert (optim.lr_scheduler_type, optim.min_lr_ratio) == ("cosine", 0.1)
    assert (optim.total_training_steps, optim.lr_warmup_steps) == (300, 30)
