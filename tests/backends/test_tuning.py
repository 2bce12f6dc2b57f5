from dataclasses import replace

import pytest
from refuses import refuses

from common.backends.verl.layout import SPLIT
from common.backends.verl.tuning import ROLLOUT, STORE, tuned
from common.experiment import load
from common.sweeps.cost import on
from common.sweeps.profiles import load_profile

SHARE, OFFLOAD = f"{ROLLOUT}.gpu_memory_utilization", "actor_rollout_ref.actor.fsdp_config"


def test_a_key_of_memory_reaches_the_experiment_and_not_its_id():
    plain = load(["backend=verl"], "f_grpo")
    x = load(["backend=verl", f"verl.{SHARE}=0.5"], "f_grpo")
    assert tuned(x.verl) == {SHARE: 0.5}
    assert tuned(plain.verl) == {}
    assert x.run_id == plain.run_id
    assert load(["backend=verl", "seed=2"], "f_grpo").run_id != plain.run_id


def test_the_command_line_goes_before_the_experiment_and_that_before_the_profile():
    x = load(["backend=verl", f"verl.{SHARE}=0.5", f"verl.{ROLLOUT}.max_num_seqs=8"], "f_grpo")
    keys = {SHARE: 0.4, f"{ROLLOUT}.max_num_seqs": 4, f"{ROLLOUT}.enforce_eager": True}
    profile = replace(load_profile("local-1x80"), verl=keys)
    assert tuned(on(x, profile, {f"{ROLLOUT}.max_num_seqs": 16}).verl) == {
        SHARE: 0.5,
        f"{ROLLOUT}.max_num_seqs": 16,
        f"{ROLLOUT}.enforce_eager": True,
        SPLIT: 1,
    }
    local = load([], "f_grpo")
    assert on(local, profile, {SHARE: 0.3}) is local


def test_the_jobs_own_ray_cluster_has_its_store_already():
    """ray.init, which verl calls, takes no sizes for a cluster that it joins."""
    x, one = load(["backend=verl"], "f_grpo"), load_profile("h100-1x8")
    assert on(x, one, {STORE: 10**9}).verl[STORE] == 10**9
    with refuses(f"verl.{STORE}", 10**9):
        on(x, replace(one, nodes=2, small=None), {STORE: 10**9})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("actor_rollout_ref.actor.optim.lr", 1e-5),  # the experiment's
        ("actor_rollout_ref.model.lora_rank", 32),
        ("nothing", 1),
        (SHARE, 1.5),
        (SHARE, "much"),
        (f"{OFFLOAD}.offload_policy", 1),
        (f"{ROLLOUT}.max_num_seqs", 0),
    ],
)
def test_what_is_the_experiments_or_unknown_is_refused(key, value):
    with refuses(f"verl.{key}", value):
        tuned({key: value})


def test_another_backend_takes_no_such_key():
    with refuses("verl"):
        load([f"verl.{SHARE}=0.5"], "f_grpo")
