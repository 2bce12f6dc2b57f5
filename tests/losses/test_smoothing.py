import math

import pytest
import torch
from refuses import refuses
from tensors import assert_close

from common.advantages.group import grpo, grpo_signed
from common.config.compose import compose
from common.losses.clip import ppo_clip
from common.losses.smoothing import smoothed_ppo_clip
from common.methods import rate
from common.methods.binding import Bound, advantages, bind
from common.methods.theory import compose as theory

CLIP = {"eps_low": 0.2, "eps_high": 0.2}


def signed_advantages(rewards):
    return grpo_signed(rewards, correct=rewards == 1, unbiased=False, epsilon=0.0)


def batch():
    """Two groups of three, one all right; responses of 1 to 4 tokens, in float64."""
    rewards = torch.tensor([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([4, 1, 3, 2, 4, 1])
    mask = (torch.arange(4) < lengths[:, None]).double()
    old = -torch.rand(6, 4, generator=generator, dtype=torch.float64) * 2
    new = old + 0.5 * torch.randn(6, 4, generator=generator, dtype=torch.float64)
    return rewards, new, old, mask


def by_hand(rewards, new, old, mask, gamma_p, gamma_n):
    """Eq. 6 and PPO's clip, token by token, in Python's floats."""
    rows = []
    for p, group in enumerate(rewards.tolist()):
        mean = sum(group) / len(group)
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / len(group))
        for i, r in enumerate(group):
            row = p * len(group) + i
            tokens = [t for t in range(mask.shape[1]) if mask[row, t] > 0]
            log_p = sum(old[row, t].item() for t in tokens)
            A = 0.0 if std == 0 else (r - mean) / std
            A += -gamma_p * log_p if r == 1 else gamma_n * log_p
            losses = [0.0] * mask.shape[1]
            for t in tokens:
                ratio = math.exp(new[row, t].item() - old[row, t].item())
                losses[t] = -min(ratio * A, min(max(ratio, 0.8), 1.2) * A)
            rows.append(losses)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(("gamma_p", "gamma_n"), [(0.1, 0.02), (0.0, 0.3), (0.5, 0.0)])
def test_it_is_the_equation(gamma_p, gamma_n):
    rewards, new, old, mask = batch()
    A = signed_advantages(rewards).view(-1, 1)
    gammas = {"gamma_p": gamma_p, "gamma_n": gamma_n}
    loss, _ = smoothed_ppo_clip(new, old, A, mask, **CLIP, **gammas)
    assert_close(loss * mask, by_hand(rewards, new, old, mask, **gammas))
    spread = A * mask  # as verl hands them over, one a token
    again, _ = smoothed_ppo_clip(new, old, spread, mask, **CLIP, **gammas)
    assert_close(again * mask, loss * mask)


def test_without_smoothing_it_is_grpo():
    rewards, new, old, mask = batch()
    signed, plain = signed_advantages(rewards), grpo(rewards, unbiased=False, epsilon=0.0)
    loss, clipped = smoothed_ppo_clip(
        new, old, signed.view(-1, 1), mask, **CLIP, gamma_p=0.0, gamma_n=0.0
    )
    known, bounded = ppo_clip(new, old, plain.view(-1, 1), mask, **CLIP)
    assert_close(loss, known)
    assert torch.equal(clipped[:3], bounded[:3])


def test_the_method_file_moves_groups_of_equal_rewards():
    node = theory(["method=ds_grpo", "G=2"]).method
    method = bind(node)
    rewards = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    seen = {"correct": rewards == 1, "lengths": torch.ones_like(rewards)}
    A = advantages(method, rewards, arguments={}, **seen).view(-1, 1)
    old = torch.tensor([[-1.0, -2.0], [-3.0, -4.0], [-1.0, -1.0], [-5.0, -5.0]])
    loss, _ = method.loss(old, old, A, torch.ones_like(old))
    g = node.loss["gamma_p"]
    assert_close(-loss[:, 0], torch.tensor([3 * g, 7 * g, -2 * g, -10 * g]), 1e-6)


def test_a_negative_coefficient_is_refused():
    rewards, new, old, mask = batch()
    with refuses("method.loss.gamma_n", "-1"):
        smoothed_ppo_clip(new, old, rewards.view(-1, 1), mask, **CLIP, gamma_p=0.0, gamma_n=-1)


# ---- the lower-rate control


def bound(*words: str) -> Bound:
    return bind(theory(list(words)).method)


@pytest.mark.parametrize(("gamma", "printed"), [(0.5, 0.68), (1.0, 0.5), (2.0, 0.3125)])
def test_the_lower_rate_is_appendix_n(gamma, printed):
    closed = 4 * math.gamma(gamma + 1.5) / (math.sqrt(math.pi) * math.gamma(gamma + 3))
    focal = bound("method=f_grpo", f"gamma={gamma}", "G=512")
    given = {"group_size": 512, "reward": theory(["G=512"]).reward, "arguments": {}}
    found = rate.mean_magnitude(focal, bound("method=grpo", "G=512"), **given)
    assert found == pytest.approx(closed, rel=1e-3)
    assert found == pytest.approx(printed, rel=2e-3)
    assert rate.mean_magnitude(focal, focal, **given) == 1


def test_the_rows_of_the_lower_rate_have_it():
    """v2 sec 5.6 prints 6.8e-7; the study's rates are 1e-5 times the mean weights."""
    config = compose("f_grpo", ["experiment=cluster/qwen7b_grpo_low_lr"])
    assert config["optim"]["lr"] == pytest.approx(1e-6 * 0.679, rel=2e-3)
    for name, lr in {"low_lr_gamma1": 5e-6, "low_lr_gamma05": 6.79e-6}.items():
        assert compose("study", [f"experiment={name}"])["optim"]["lr"] == lr
