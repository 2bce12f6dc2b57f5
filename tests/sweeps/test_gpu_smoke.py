"""What `rlvr gpu-smoke` concludes from what it saw."""

from pathlib import Path

import pytest

from bench import gpu_smoke
from common.experiment import load

CPU = gpu_smoke.Machine(0, "no GPU: the CPU build")
BOX = gpu_smoke.Machine(8, "8 x NVIDIA H100 80GB HBM3")


def lines(**data: float) -> list[dict]:
    return [{"step": step, "data": data} for step in (1, 2, 3)]


def test_a_difference_beyond_rounding_fails():
    key = "training/rollout_probs_diff_mean"
    assert gpu_smoke.difference(BOX, lines(**{key: 0.01})).verdict == "ok"
    assert gpu_smoke.difference(CPU, lines(**{key: 0.01})).verdict == "FAILED: at most 0.001"
    assert gpu_smoke.difference(CPU, []).verdict.startswith("FAILED")  # verl did not say


def test_ranks_that_did_not_all_step_fail_and_one_rank_shows_nothing():
    norms = lines(**{"actor/grad_norm": 1.0})
    assert gpu_smoke.ranks(BOX, norms).verdict == "ok"
    assert gpu_smoke.ranks(BOX, norms[:1]).verdict == "FAILED"
    assert gpu_smoke.ranks(BOX, lines(**{"actor/grad_norm": float("nan")})).verdict == "FAILED"
    assert gpu_smoke.ranks(CPU, norms).verdict == "not looked at: needs a GPU"
    one = gpu_smoke.Machine(1, "1 x NVIDIA H100 80GB HBM3")
    assert gpu_smoke.ranks(one, norms).verdict == "not looked at: one GPU"


def test_a_sleeping_vllm_gives_its_memory_back(tmp_path):
    """Between two peaks, not before the first or after the last."""
    text = "actor_rollout_ref: {rollout: {gpu_memory_utilization: 0.6}}"
    (tmp_path / "verl.yaml").write_text(text)
    slept = [[10], [60_000], [20_000], [61_000], [10]]
    assert gpu_smoke.asleep(BOX, slept, tmp_path).verdict == "ok"
    awake = [[10], [60_000], [50_000], [61_000], [10]]
    assert gpu_smoke.asleep(BOX, awake, tmp_path).verdict.startswith("look")
    assert gpu_smoke.asleep(CPU, [], tmp_path).verdict == "not looked at: needs a GPU"


@pytest.mark.parametrize(("there", "path"), [(CPU, ""), (CPU, "folder"), (BOX, gpu_smoke.HUB)])
def test_the_training_is_an_experiment_that_verl_divides(there, path):
    x = load(gpu_smoke.settings(there, path, Path("results")), "f_grpo")
    assert (x.backend, x.device, x.optim.steps, x.checkpoint_every) == ("verl", there.device, 3, 1)
    responses = x.sampling.prompts * x.sampling.group_size
    assert responses % max(1, there.gpus) == 0
    assert x.model.path == (path or None)
