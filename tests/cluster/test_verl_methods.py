"""Every method file inside stock verl: by verl's own calls, with arguments from verl's flags."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from omegaconf import OmegaConf
from refuses import refuses
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.workers.config import FSDPActorConfig

from common.backends.verl import config as verl_config
from common.backends.verl import methods, plugin, trainer
from common.config.compose import compose
from common.config.files import ROOT
from common.config.strict import strict
from common.errors import UserError
from common.experiment import Experiment, load
from common.methods import binding as loop

P, G, T = 5, 8, 6
PLACE = verl_config.Place("cpu", 1, 1, None, Path("work"), "model")
CONTROLLED = dict(solve_rate=0.4, entropy=0.8, step=3)


def close(actual, expected, tolerance=1e-6):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def experiment(name: str, *overrides: str):
    """The method as the local loop has it, composed by Hydra: (Method, its bound functions)."""
    flags = [f"method={name}", f"sampling.group_size={G}", f"sampling.max_tokens={T}", *overrides]
    method = strict(Experiment, compose("f_grpo", flags)).method
    return method, loop.bind(method)


@pytest.fixture
def batch():
    """mask (B, T) with one row of verl's padding, uid (B,), rows (P, G), rewards (P, G)."""
    torch.manual_seed(0)
    lengths = torch.randint(1, T + 1, (P * G + 1,))
    order = torch.randperm(P * G + 1)
    rows, padding = order[:-1].view(P, G), order[-1]
    lengths[padding] = 0
    mask = (torch.arange(T) < lengths[:, None]).float()
    uid = np.empty(P * G + 1, dtype=object)
    for prompt, group in enumerate(rows.tolist()):
        uid[group] = f"prompt {prompt}"
    uid[padding] = "padding"
    rewards = torch.bernoulli(torch.linspace(0, 1, P)[:, None].expand(P, G))
    return mask, uid, rows, rewards


def data(batch) -> DataProto:
    """The batch as verl's trainer hands it to compute_advantage."""
    mask, uid, rows, rewards = batch
    flat = torch.zeros(len(mask))
    flat[rows] = rewards
    token_rewards = torch.zeros_like(mask)
    token_rewards[torch.arange(len(mask)), (mask.sum(1).long() - 1).clamp(min=0)] = flat
    return DataProto.from_single_dict(
        {"token_level_rewards": token_rewards, "response_mask": mask, "uid": uid}
    )


def actor(
    name: str, *, loss=None, token_weights=None, aggregation="", **settings
) -> FSDPActorConfig:
    """verl's actor configuration as the flags of a method make it."""
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=G,
        ppo_micro_batch_size_per_gpu=G,
        policy_loss=plugin.MethodLossConfig(
            loss_mode=f"rlvr_{name}",
            method=loss or {},
            token_weights=token_weights or {},
            aggregation=aggregation,
        ),
        **settings,
    )


# ---- the same numbers as the pure functions


@pytest.mark.parametrize("name", methods.names())
def test_advantage_through_verl_is_the_pure_function(name, batch):
    method, bound = experiment(name)
    mask, _, rows, rewards = batch
    _, arguments = loop.observe(bound, {}, **CONTROLLED)
    drawn = -9 * torch.rand(len(mask), dtype=torch.float64)  # as MethodTrainer sets them
    seen = {"correct": rewards == 1, "lengths": mask.sum(1)[rows], "log_probs": drawn[rows]}
    expected = loop.advantages(bound, rewards, arguments=arguments, **seen)
    given = dict(arguments)
    if "max_tokens" in method.advantage:
        given["max_tokens"] = T
    algorithm = OmegaConf.create({"method": given, "log_probs": drawn.tolist()})
    out = compute_advantage(data(batch), f"rlvr_{name}", config=algorithm).batch["advantages"]
    close(out[rows], expected.float()[..., None] * mask[rows])
    assert out[mask == 0].abs().max() == 0


@pytest.mark.parametrize("name", [x for x in methods.names() if not methods.not_in_verl(x)])
def test_loss_through_verl_is_the_pure_function(name, batch):
    _, bound = experiment(name)
    mask = batch[0]
    mask = mask[mask.sum(1) > 0]
    torch.manual_seed(1)
    old = -torch.rand(mask.shape) * 2
    log_prob = (old + torch.randn(mask.shape) / 2).requires_grad_()
    advantages = torch.randn(len(mask), 1)
    extra = {}
    if bound.token_weights is not None:
        weights = bound.token_weights(log_prob.detach(), old, advantages.expand_as(mask), mask)
        extra["token_weights"] = weights
    values, clipped = bound.loss(log_prob, old, advantages, mask, **extra)
    expected = (bound.aggregate(mask) * values).sum()
    mode = methods.agg_mode(name)
    settings = actor(name, loss_agg_mode=mode, loss_scale_factor=T)
    settings.global_batch_info.update(
        dp_size=1, batch_num_tokens=mask.sum(), global_batch_size=len(mask), loss_scale_factor=T
    )
    out, metrics = core_algos.get_policy_loss_fn(f"rlvr_{name}")(
        old_log_prob=old,
        log_prob=log_prob,
        advantages=advantages.expand_as(mask) * mask,
        response_mask=mask.bool(),
        loss_agg_mode=mode,
        config=settings,
    )
    close(out, expected)
    close(*(torch.autograd.grad(x, log_prob)[0] for x in (out, expected)))
    share = (clipped * mask).sum() / mask.sum()
    assert metrics["actor/pg_clipfrac"] == pytest.approx(share.item(), abs=1e-6)
    kl = ((old - log_prob) * mask).sum() / mask.sum()
    assert metrics["actor/ppo_kl"] == pytest.approx(kl.item(), abs=1e-6)


def test_rollout_correction_weights_multiply_the_loss_as_in_verls_own(batch):
    mask = torch.ones(2, 3)
    log_prob, weights = torch.zeros(2, 3), torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.5]])
    out, _ = core_algos.get_policy_loss_fn("rlvr_grpo")(
        log_prob, log_prob, mask, mask, "token-mean", actor("grpo"), weights
    )
    assert out.item() == pytest.approx(-7.5 / 6)  # L = -1 for each token; weights sum to 7.5


def test_rewards_of_minus_one_and_one_give_the_same_weights(batch):
    mask, uid, rows, rewards = batch
    plain = compute_advantage(data(batch), "f_grpo", config=OmegaConf.create({}))
    none = OmegaConf.create({})
    out = compute_advantage(data((mask, uid, rows, 2 * rewards - 1)), "f_grpo", config=none)
    close(out.batch["advantages"], plain.batch["advantages"], 2e-6)
    doubled = data((mask, uid, rows, 2 * rewards))
    with pytest.raises(UserError, match="two rewards"):  # none is 1, and the others differ
        compute_advantage(doubled, "f_grpo", config=none)
    told = OmegaConf.create({"reward_correct": 2.0})
    out = compute_advantage(doubled, "f_grpo", config=told)
    close(out.batch["advantages"], plain.batch["advantages"], 2e-6)


def test_arguments_of_flags_act(batch):
    gamma = OmegaConf.create({"method": {"gamma": 0}})
    out = compute_advantage(data(batch), "f_grpo", config=gamma).batch["advantages"]
    grpo = compute_advantage(data(batch), "rlvr_grpo", config=OmegaConf.create({}))
    assert torch.equal(out, grpo.batch["advantages"])
    mask = torch.ones(1, 1)
    log_prob = torch.full((1, 1), 2.0).log()  # ratio 2: clipped at 1 + eps_high
    for high, expected in [(0.28, -1.28), (0.5, -1.5)]:
        out, _ = core_algos.get_policy_loss_fn("rlvr_grpo")(
            mask * 0, log_prob, mask, mask, "token-mean", actor("grpo", loss={"eps_high": high})
        )
        assert out.item() == pytest.approx(expected)


# ---- what is refused


def test_unknown_arguments_are_refused(batch):
    with pytest.raises(UserError, match=r"algorithm\.method\.gama=1: unknown .*gamma"):
        compute_advantage(data(batch), "f_grpo", config=OmegaConf.create({"method": {"gama": 1}}))
    mask = torch.ones(1, 1)
    for part in ("loss", "token_weights"):
        settings = actor("clip_cov", **{part: {"eps_hihg": 1}})
        with pytest.raises(UserError, match=r"actor\.policy_loss\.\w+\.eps_hihg=1: unknown"):
            core_algos.get_policy_loss_fn("rlvr_clip_cov")(
                mask, mask, mask, mask, "token-mean", settings
            )


def test_unequal_groups_are_refused(batch):
    one_short = data(batch)
    one_short.batch["response_mask"][batch[2][0, 0]] = 0
    with pytest.raises(UserError, match=r"uid: groups of \[7, 8\]"):
        compute_advantage(one_short, "rlvr_grpo", config=OmegaConf.create({}))


def test_a_controlled_method_without_its_controller_is_refused(batch):
    with pytest.raises(
        UserError, match=r"'alpha', 'delta'.* python -m common\.backends\.verl\.main"
    ):
        compute_advantage(data(batch), "fade", config=OmegaConf.create({}))


def test_a_method_of_log_probabilities_without_them_is_refused(batch):
    with pytest.raises(UserError, match=r"method ucpo .* python -m common\.backends\.verl\.main"):
        compute_advantage(data(batch), "rlvr_ucpo", config=OmegaConf.create({}))


def test_another_aggregation_is_refused():
    mask = torch.ones(1, 1)
    loss = core_algos.get_policy_loss_fn("rlvr_dr_grpo")
    with pytest.raises(UserError, match=r"loss_agg_mode=token-mean: method dr_grpo is seq-mean"):
        loss(mask, mask, mask, mask, "token-mean", actor("dr_grpo"))
    with pytest.raises(UserError, match=r"loss_scale_factor=null"):
        loss(mask, mask, mask, mask, "seq-mean-token-sum-norm", actor("dr_grpo"))


# ---- registration


@pytest.mark.parametrize("name", methods.names())
def test_our_composition_is_hydras(name):
    hydras = OmegaConf.to_container(compose("f_grpo", [f"method={name}"]).method)
    assert OmegaConf.to_container(methods.compose(name)) == hydras


def test_names():
    assert len(methods.names()) > 20
    assert "_base" not in methods.names()
    registries = (core_algos.ADV_ESTIMATOR_REGISTRY, core_algos.POLICY_LOSS_REGISTRY)
    for registry in registries:
        for verls in ("grpo", "rloo", "gspo", "cispo", "clip_cov", "vanilla"):
            ours = registry.get(verls)
            assert ours is None or not ours.__module__.startswith("common.")
            assert verls not in plugin.METHOD_OF
        assert registry["f_grpo"] is registry["rlvr_f_grpo"]
        assert registry["rlvr_grpo"].__module__ == "common.backends.verl.plugin"
    assert plugin.METHOD_OF["rlvr_cispo"] == "cispo"
    before = [dict(registry) for registry in registries]
    plugin.register()  # again changes nothing
    assert [dict(registry) for registry in registries] == before


def test_the_check_fails_where_registration_did_not_happen(monkeypatch):
    plugin.check_registered()
    monkeypatch.delitem(core_algos.POLICY_LOSS_REGISTRY, "rlvr_f_grpo")
    with pytest.raises(UserError, match="method=f_grpo: not registered with verl"):
        plugin.check_registered()


def test_a_broken_plugin_that_verl_drops_in_silence_stops_our_command(tmp_path):
    program = (
        "import common.backends.verl.methods as methods\n"
        "def broken(): raise RuntimeError('a broken method file')\n"
        "methods.names = broken\n"
        "import verl\n"  # finds the plugin by the entry point in tmp_path
        "from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as registry\n"
        "print('verl imported,', 'rlvr_grpo' in registry)\n"
        "import common.backends.verl.main\n"
    )
    info = tmp_path / "plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    entry = "[verl.plugins]\nrlvr = common.backends.verl.plugin\n"
    (info / "entry_points.txt").write_text(entry)
    environment = {**os.environ, "VERL_USE_EXTERNAL_MODULES": "common.backends.verl.cpu"}
    environment["PYTHONPATH"] = f"{ROOT}:{tmp_path}:{ROOT / 'tests' / 'cluster'}"

    def run(text):
        return subprocess.run(
            [sys.executable, "-c", text], env=environment, capture_output=True, text=True
        )

    done = run(program)
    assert done.stdout.strip().endswith("verl imported, False"), done.stderr
    assert done.returncode != 0
    assert "RuntimeError: a broken method file" in done.stderr
    fixed = run(program.replace("methods.names = broken\n", ""))
    assert fixed.stdout.strip().endswith("verl imported, True"), fixed.stderr
    assert fixed.returncode == 0, fixed.stderr


# ---- token weights that compare responses


def test_weights_of_groups_are_the_local_ones_however_verl_orders_the_rows(batch):
    x = load(["experiment=cluster/distill15b_cw_grpo", f"sampling.group_size={G}"], "cov_grpo")
    verls = verl_config.settings(x, PLACE, 64, 4096, {})
    node = verls["algorithm.token_weights"]
    bound = x.bound
    mask, uid, rows, _ = batch
    torch.manual_seed(2)
    old, advantages = -2 * torch.rand(mask.shape), torch.randn(len(mask), 1) * mask
    at = rows.flatten()
    ours = bound.token_weights(old[at], old[at], advantages[at], mask[at])
    weighted = trainer.weighed(
        node, uid, response_mask=mask, old_log_probs=old, advantages=advantages
    )
    close(weighted[at], ours * advantages[at])
    assert (ours[mask[at] > 0] - 1).abs().max() > 0.1
    # and the loss on a part of the rows is the local one on them, with their groups' weights
    part = at.view(P, G)[:, ::3].flatten()
    kept = torch.zeros(len(mask), dtype=bool)
    kept[part] = True
    log_prob = (old[kept] + 0.1).requires_grad_()
    loss_mode = verls[f"{verl_config.LOSS}.loss_mode"]
    mode = verls["actor_rollout_ref.actor.loss_agg_mode"]
    config = actor(loss_mode.removeprefix("rlvr_"), aggregation=mode)
    config.global_batch_info.update(
        dp_size=1, batch_num_tokens=mask.sum(), global_batch_size=P * G, loss_scale_factor=None
    )
    total, _ = core_algos.get_policy_loss_fn(loss_mode)(
        old[kept], log_prob, weighted[kept], mask[kept], mode, config
    )
    whole = torch.zeros_like(mask)
    whole[at] = ours
    values, _ = bound.loss(
        log_prob, old[kept], advantages[kept], mask[kept], token_weights=whole[kept]
    )
    lengths = mask[kept].sum(1, keepdim=True).clamp(min=1)
    expected = (values * mask[kept] / lengths).sum() / (P * G)
    close(total, expected)
    gradients = [torch.autograd.grad(one, log_prob)[0] for one in (total, expected)]
    close(*gradients)
    assert gradients[0].abs().max() > 1e-4


@pytest.mark.parametrize("name", ["cluster/distill15b_clip_cov", "cw_grpo_repository"])
def test_weights_that_compare_responses_where_they_are_not_the_method_are_refused(name):
    x = load([f"experiment={name}"], "cov_grpo")
    assert verl_config.settings(x, PLACE, 64, 4096, {})["algorithm.token_weights"]
    twice = replace(x, optim=replace(x.optim, mini_batches=2))
    with refuses("optim.mini_batches", 2):
        verl_config.settings(twice, PLACE, 64, 4096, {})
    penalty = load(["method=kl_cov", "optim.mini_batches=1"], "f_grpo")
    with refuses("method.loss._target_", "common.losses.covariance.kl_cov"):
        verl_config.settings(penalty, PLACE, 64, 4096, {})


def test_the_repository_reading_is_that_of_one_aggregation():
    x = load(["experiment=cw_grpo_repository"], "cov_grpo")
    other = {"_target_": "common.losses.aggregate.token_mean"}
    with refuses("method.aggregation._target_", other["_target_"]):
        verl_config.settings(
            replace(x, method=replace(x.method, aggregation=other)), PLACE, 64, 4096, {}
        )
