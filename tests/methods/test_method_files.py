"""Every method file composes, and its advantage runs."""

import inspect

import pytest
import torch
from compositions import composed

from common.methods.binding import OF_RESPONSES

NAMES = [
    "grpo", "dr_grpo", "mean_only", "reinforce", "rloo", "reinforce_pp_baseline", "power_alpha",
    "easy_power", "asym_power", "asym_grpo", "asym_rl", "fade", "pass_at_k_tang",
    "pass_at_k_chen", "pass_at_k_mix", "max_rl", "quantile", "mc_grpo", "skew_r", "t2t",
    "binary_contrastive", "power_norm", "softmax", "log_mean_exp", "ha_dw", "relu",
    "negative_only", "positive_only", "iac", "filter_easiest", "f_grpo",
    "dapo_overlong", "dapo_iac_overlong", "grpo_verl", "iac_verl", "rloo_verl", "reinforce_pp_verl",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_method_file_composes_and_its_advantage_runs(name):
    from common.config.resolve import resolve

    method = composed((f"method={name}",), "f_grpo").method  # refuses unknown and missing arguments
    assert method.name == name
    arguments = {}
    if method.controller:
        controller = resolve(
            method.controller, "method.controller", supplied=("solve_rate", "entropy", "step")
        )
        _, arguments = controller({}, solve_rate=0.3, entropy=1.0, step=1)
    advantage = resolve(method.advantage, "method.advantage", supplied=(*OF_RESPONSES, *arguments))
    for word in OF_RESPONSES:
        if word in inspect.signature(advantage.func).parameters:
            arguments[word] = torch.arange(1, 25).reshape(3, 8)
    rewards = torch.tensor([[1.0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0, 0, 0], [0.0] * 8])
    arguments |= {"correct": rewards == 1} if "correct" in arguments else {}
    out = advantage(rewards, **arguments)
    assert out.shape == (3, 8)
    assert out.isfinite().all()
    assert out[:2].any(1).all()
