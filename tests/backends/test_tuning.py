"""verl.KEY=VALUE: what changes memory and speed alone reaches verl and no run id; nothing else."""

from dataclasses import replace

import pytest
from compositions import composed

from common.backends.verl.tuning import ROLLOUT, STORE, chosen
from common.errors import UserError
from common.experiment import load
from common.sweeps.profiles import load_profile, on
from slurm.__main__ import asked_for

SHARE, OFFLOAD = f"{ROLLOUT}.gpu_memory_utilization", "actor_rollout_ref.actor.fsdp_config"


def test_a_key_of_memory_reaches_the_experiment_and_not_its_id():
    plain = load(["backend=verl"], "f_grpo")
    x = load(["backend=verl", f"verl.{SHARE}=0.5"], "f_grpo")
    assert chosen(x) == {SHARE: 0.5}
    assert chosen(plain) == {}
    assert x.run_id == plain.run_id
    assert load(["backend=verl", "seed=2"], "f_grpo").run_id != plain.run_id


def test_the_command_line_goes_before_the_experiment_and_that_before_the_profile():
    x = load(["backend=verl", f"verl.{SHARE}=0.5", f"verl.{ROLLOUT}.max_num_seqs=8"], "f_grpo")
    keys = {SHARE: 0.4, f"{ROLLOUT}.max_num_seqs": 4, f"{ROLLOUT}.enforce_eager": True}
    profile = replace(load_profile("local"), verl=keys)
    assert chosen(on(x, profile, {f"{ROLLOUT}.max_num_seqs": 16})) == {
        SHARE: 0.5,
        f"{ROLLOUT}.max_num_seqs": 16,
        f"{ROLLOUT}.enforce_eager": True,
    }
    local = load([], "f_grpo")
    assert on(local, profile, {SHARE: 0.3}) is local


def test_the_jobs_own_ray_cluster_has_its_store_already():
    """ray.init, which verl calls, takes no sizes for a cluster that it joins."""
    x, one = load(["backend=verl"], "f_grpo"), load_profile("h100-1x8")
    assert on(x, one, {STORE: 10**9}).verl == {STORE: 10**9}
    with pytest.raises(UserError, match=rf"verl\.{STORE}=1000000000: a Ray cluster of several"):
        on(x, replace(one, nodes=2, small=None), {STORE: 10**9})


def test_a_sweep_may_give_keys_of_its_own():
    sweep = f"{{table: t, rows: [base], seeds: [1], overrides: ['verl.{SHARE}=0.5']}}"
    asked = asked_for("f_grpo", "smoke", [f"scales.smoke.sweeps=[{sweep}]"])
    assert asked.scales["smoke"].sweeps[0].overrides == [f"verl.{SHARE}=0.5"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("actor_rollout_ref.actor.optim.lr", 1e-5, "set optim.lr"),
        ("actor_rollout_ref.actor.optim.lr_warmup_steps", 3, "set optim.warmup_steps"),
        ("actor_rollout_ref.rollout.n", 4, "set sampling.group_size"),
        ("actor_rollout_ref.rollout.seed", 4, "set seed"),
        ("data.max_response_length", 4, "set sampling.prompts, sampling.max_tokens"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode", "gspo", "set method=NAME"),
        ("actor_rollout_ref.actor.loss_agg_mode", "x", "set method.aggregation"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", 2, "set optim.mini_batches"),
        ("actor_rollout_ref.model.lora_rank", 32, "LoRA trains a small part of the weights"),
        ("actor_rollout_ref.model.lora.rank", 32, "LoRA trains a small part of the weights"),
        ("actor_rollout_ref.rollout.gpu_memory_utilisation", 0.5, f"did you mean verl.{SHARE}?"),
        ("actor_rollout_ref.rollout.nnodes", 2, "unknown key"),
        ("nothing", 1, "unknown key verl.nothing=1"),
        (SHARE, 1.5, "must be between 0 and 1"),
        (SHARE, "much", "must be between 0 and 1"),
        (f"{OFFLOAD}.offload_policy", 1, "must be true or false"),
        (f"{ROLLOUT}.max_num_seqs", 0, "must be a whole number, at least 1"),
    ],
)
def test_what_is_the_experiments_or_unknown_is_refused(key, value, said):
    x = replace(composed((), "f_grpo"), backend="verl", verl={key: value})
    with pytest.raises(UserError) as caught:
        chosen(x)
    assert f"verl.{key}={value}" in str(caught.value)
    assert said in str(caught.value)


def test_another_backend_takes_no_such_key():
    with pytest.raises(UserError, match="is for backend=verl alone"):
        load([f"verl.{SHARE}=0.5"], "f_grpo")
