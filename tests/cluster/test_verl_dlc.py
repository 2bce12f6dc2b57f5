from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from engines import T, configured, experiment, mini_batch, random_model, training_worker
from verl.utils import tensordict_utils as tu
from verl.workers.utils.padding import left_right_2_no_padding

from common.backends.verl import rows
from common.backends.verl import worker as worker_module
from common.backends.verl.worker import PolicyWorker

MU, TEMPERATURE = 0.5, 1.3


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """(policy, memory network, the worker that trains both, a mini-batch)."""
    folder, made, networks = tmp_path_factory.mktemp("dlc"), [], []
    for name in ("policy", "memory"):
        torch.manual_seed(len(made))
        networks.append(random_model(folder / name))
        made.append(training_worker(configured(experiment("device=cpu"), folder / name)))
    worker = object.__new__(PolicyWorker)
    worker.actor, worker.memory = made
    overrides = SimpleNamespace(hf_overrides=SimpleNamespace(memory_mu=MU))
    worker.config = SimpleNamespace(
        rollout=SimpleNamespace(engine_kwargs=SimpleNamespace(vllm=overrides))
    )
    return *networks, worker, mini_batch(networks[0])


@torch.no_grad()
def probabilities(parts, mu: float) -> torch.Tensor:
    policy, memory, _, batch = parts
    held = batch.batch
    given = {key: held[key] for key in ("input_ids", "attention_mask", "position_ids")}
    both = (network(**given).logits[:, -T - 1 : -1] for network in (policy, memory))
    f, g = both
    logits = (f - mu * g) / TEMPERATURE
    return logits.softmax(-1).gather(-1, held["responses"][..., None])[..., 0]


@pytest.mark.parametrize("sampled_with", [MU, 0.0])
def test_the_sampler_is_compared_with_the_calibrated_distribution(parts, sampled_with):
    batch = parts[3]
    mask = batch.batch["response_mask"]
    sampled = probabilities(parts, sampled_with)
    apart = (sampled - probabilities(parts, MU)).abs() * mask
    data = batch.to_tensordict()
    data["rollout_log_probs"] = sampled.log()
    data = left_right_2_no_padding(data)
    tu.assign_non_tensor(data, temperature=TEMPERATURE, calculate_entropy=False)
    metrics = tu.get(parts[2].compare_sampler(data), "metrics")
    assert metrics["loss"] == pytest.approx((apart.sum() / mask.sum()).item(), abs=1e-6)
    assert np.max(metrics["max"]) == pytest.approx(apart.max().item(), abs=1e-6)
    assert (metrics["loss"] > 1e-3) == (sampled_with != MU)  # the comparison tells the two apart


def test_what_vllm_holds_asleep_is_among_the_metrics_of_an_update(parts, monkeypatch):
    # the last test: it trains the policy that the others compare with
    worker, batch = parts[2], parts[3].to_tensordict()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (20 * 2**30, 80 * 2**30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 55 * 2**30)
    assert worker_module.asleep_gib() == {}  # there is no GPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = worker_module.asleep_gib()
    monkeypatch.undo()
    monkeypatch.setattr(worker_module, "asleep_gib", lambda: found)
    batch["old_log_probs"] = batch["rollout_log_probs"] = probabilities(parts, 0.0).log()
    data = left_right_2_no_padding(batch)
    tu.assign_non_tensor(data, temperature=1.0, calculate_entropy=False, mini_batch_size=len(batch))
    worker.actor.set_loss_fn(worker_module.cross_entropy)
    worker.enable_routing_replay = False
    metrics = tu.get(worker.update_actor(data), "metrics")
    data = {"actor/asleep_gib": metrics["asleep_gib"], rows.PREFIX + "reward": 0.5}
    row = rows.curve_row({"step": 1, "data": data})
    assert row == {"step": 1, "asleep_gib": 5.0, "reward": 0.5}
