"""Advantages, policy losses, regularisers and aggregation against numbers worked by hand."""

import itertools
import math

import pytest
import torch

from common.advantages.group import focal, focal_weight, grpo
from common.errors import UserError
from common.losses.aggregate import sequence_mean_token_mean, token_mean
from common.losses.clip import cispo, ppo_clip
from common.losses.regularizers import kl_k3


def rows(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(
        actual, torch.as_tensor(expected, dtype=actual.dtype), rtol=tolerance, atol=tolerance
    )


ZERO_ONE = dict(reward_correct=1.0, reward_wrong=0.0)
PLUS_MINUS = dict(reward_correct=1.0, reward_wrong=-1.0)

# ---- advantages


def test_grpo_by_hand():
    # One right of four: mean 1/4, centred 3/4 and -1/4, sum of squares 9/16 + 3/16 = 3/4.
    # Unbiased std = sqrt((3/4) / 3) = 1/2: A = 3/2, -1/2. Biased std = sqrt((3/4) / 4) = sqrt(3)/4:
    # A = 3/sqrt(3) = sqrt(3), -1/sqrt(3).
    group = rows([0, 1, 0, 0])
    close(grpo(group, unbiased=True, epsilon=0.0), [[-0.5, 1.5, -0.5, -0.5]])
    third = 1 / math.sqrt(3)
    close(grpo(group, unbiased=False, epsilon=0.0), [[-third, math.sqrt(3), -third, -third]])
    # Rewards -1 and 1 double the deviation and the std: the same advantages.
    close(grpo(2 * group - 1, unbiased=True, epsilon=0.0), [[-0.5, 1.5, -0.5, -0.5]])
    # Two of two, unbiased: centred +-1/2, std = sqrt(1/2): A = +-1/sqrt(2).
    close(grpo(rows([1, 0]), unbiased=True, epsilon=0.0), [[math.sqrt(0.5), -math.sqrt(0.5)]])
    # Epsilon is added to the std: 3/4 / (1/2 + 1/4) = 1, -1/4 / (3/4) = -1/3.
    close(grpo(group, unbiased=True, epsilon=0.25), [[-1 / 3, 1, -1 / 3, -1 / 3]])


def test_grpo_takes_any_rewards_and_groups_do_not_mix():
    # Rewards 1, 2, 6: mean 3, centred -2, -1, 3, unbiased variance 14 / 2 = 7.
    both = grpo(rows([1, 2, 6], [0, 0, 1]), unbiased=True, epsilon=0.0)
    close(both[0], [-2 / math.sqrt(7), -1 / math.sqrt(7), 3 / math.sqrt(7)])
    close(both[1], grpo(rows([0, 0, 1]), unbiased=True, epsilon=0.0)[0])


def test_focal_by_hand():
    # One right of four: mu = 1/4, 1 - mu = 3/4; GRPO gives 3/2 and -1/2.
    group, grpo_by_hand = rows([0, 1, 0, 0]), rows([-0.5, 1.5, -0.5, -0.5])
    for gamma, weight in {0.5: math.sqrt(3) / 2, 1.0: 0.75, 2.0: 0.5625}.items():
        out = focal(group, gamma=gamma, unbiased=True, epsilon=0.0, **ZERO_ONE)
        close(out, weight * grpo_by_hand)
    # Three right of four: mu = 3/4, 1 - mu = 1/4, GRPO 1/2 and -3/2.
    out = focal(rows([1, 1, 0, 1]), gamma=0.5, unbiased=True, epsilon=0.0, **ZERO_ONE)
    close(out, [[0.25, 0.25, -0.75, 0.25]])
    out = focal(rows([1, 1, 0, 1]), gamma=2.0, unbiased=True, epsilon=0.0, **ZERO_ONE)
    close(out, [[1 / 32, 1 / 32, -3 / 32, 1 / 32]])


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_focal_weight_does_not_depend_on_the_reward_convention(gamma):
    groups = torch.tensor(list(itertools.product([0.0, 1.0], repeat=5)))
    zero_one = focal_weight(groups, gamma=gamma, **ZERO_ONE)
    assert torch.equal(zero_one, focal_weight(2 * groups - 1, gamma=gamma, **PLUS_MINUS))
    assert zero_one.shape == (32, 1)
    assert zero_one[0] == 1  # nothing right
    assert zero_one[-1] == 0  # all right


@pytest.mark.parametrize("unbiased", [True, False])
def test_gamma_zero_is_grpo_exactly(unbiased):
    groups = torch.tensor(list(itertools.product([0.0, 1.0], repeat=6)))
    plain = grpo(groups, unbiased=unbiased, epsilon=1e-6)
    assert torch.equal(focal(groups, gamma=0.0, unbiased=unbiased, epsilon=1e-6, **ZERO_ONE), plain)


@pytest.mark.parametrize("reward", [0.0, 1.0, -1.0, 0.1])
@pytest.mark.parametrize("size", [2, 3, 7, 8, 32])
def test_equal_rewards_give_exactly_zero(reward, size):
    group = torch.full((3, size), reward)
    for unbiased in (True, False):
        for epsilon in (0.0, 1e-6):
            assert torch.equal(
                grpo(group, unbiased=unbiased, epsilon=epsilon), torch.zeros(3, size)
            )
            out = focal(
                group, gamma=1.0, unbiased=unbiased, epsilon=epsilon,
                reward_correct=reward, reward_wrong=reward - 1,
            )  # fmt: skip
            assert torch.equal(out, torch.zeros(3, size))


def test_groups_of_one_are_refused():
    for call in (
        lambda: grpo(rows([1]), unbiased=True, epsilon=1e-6),
        lambda: focal(rows([1]), gamma=1.0, unbiased=True, epsilon=1e-6, **ZERO_ONE),
    ):
        with pytest.raises(UserError, match=r"sampling\.group_size=1: .* use 2 or more"):
            call()


def test_focal_refuses_other_rewards_and_negative_gamma():
    for bad in (0.5, 2.0, -1.0, float("nan")):
        with pytest.raises(UserError, match="two rewards"):
            focal(rows([0, bad, 1]), gamma=1.0, unbiased=True, epsilon=1e-6, **ZERO_ONE)
    with pytest.raises(UserError, match=r"method\.advantage\.gamma=-0\.5: must be >= 0"):
        focal(rows([0, 1]), gamma=-0.5, unbiased=True, epsilon=1e-6, **ZERO_ONE)


def slow_focal(group: list[int], gamma: float, unbiased: bool, epsilon: float) -> list[float]:
    size, right = len(group), sum(group)
    if right in (0, size):
        return [0.0] * size
    mean = right / size
    variance = sum((reward - mean) ** 2 for reward in group) / (size - unbiased)
    weight = (1 - right / size) ** gamma
    return [weight * (reward - mean) / (math.sqrt(variance) + epsilon) for reward in group]


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7, 8])
def test_all_groups_against_a_slow_reference(size, unbiased):
    groups = list(itertools.product([0, 1], repeat=size))
    rewards = rows(*groups)
    for gamma in (0.0, 0.5, 1.0, 2.0):
        expected = [slow_focal(group, gamma, unbiased, 1e-6) for group in groups]
        out = focal(rewards, gamma=gamma, unbiased=unbiased, epsilon=1e-6, **ZERO_ONE)
        close(out, expected)
        close(out.sum(1), [0.0] * len(groups))
        if gamma == 0:
            close(grpo(rewards, unbiased=unbiased, epsilon=1e-6), expected)


# ---- policy losses


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope", "clipped"),
    [  # eps_low = 0.2, eps_high = 0.28; slope = d loss / d log_prob = -r A where it is not clipped
        (1.0, 2.0, -2.0, -2.0, False),
        (1.2, 2.0, -2.4, -2.4, False),  # inside 0.8..1.28
        (1.5, 2.0, -2.56, 0.0, True),  # -1.28 * 2
        (0.5, 2.0, -1.0, -1.0, False),  # min(0.5 * 2, 0.8 * 2): a good token that fell is not held
        (1.0, -2.0, 2.0, 2.0, False),
        (0.5, -2.0, 1.6, 0.0, True),  # -min(-1, -1.6)
        (0.9, -2.0, 1.8, 1.8, False),
        (1.5, -2.0, 3.0, 3.0, False),  # -min(-3, -2.56): a bad token that rose is not held
        (9.0, -1.0, 9.0, 9.0, False),  # no dual clip
        (1.5, 0.0, 0.0, 0.0, False),
    ],
)
def test_ppo_clip_by_hand(ratio, advantage, loss, slope, clipped):
    old = rows([-1.3])
    log_prob = (old + math.log(ratio)).requires_grad_()
    out, flag = ppo_clip(log_prob, old, rows([advantage]), eps_low=0.2, eps_high=0.28)
    close(out, [[loss]])
    assert flag.tolist() == [[clipped]]
    assert not flag.requires_grad
    close(torch.autograd.grad(out.sum(), log_prob)[0], [[slope]])


@pytest.mark.parametrize(
    ("ratio", "advantage", "weight"),
    [  # eps_low = 1, eps_high = 5 as in the paper: weight = clip(r, 0, 6)
        (1.0, 2.0, 1.0),
        (0.01, 2.0, 0.01),
        (6.5, 2.0, 6.0),
        (6.5, -2.0, 6.0),  # the sign of A does not matter
        (0.5, -2.0, 0.5),
    ],
)
def test_cispo_by_hand(ratio, advantage, weight):
    old = rows([-1.3])
    log_prob = (old + math.log(ratio)).requires_grad_()
    out, flag = cispo(log_prob, old, rows([advantage]), eps_low=1.0, eps_high=5.0)
    close(out, -weight * advantage * log_prob.detach())
    assert flag.tolist() == [[weight != ratio and ratio > 6]]
    # The weight carries no gradient and no gradient is lost: d loss / d log_prob = -w A.
    close(torch.autograd.grad(out.sum(), log_prob)[0], [[-weight * advantage]])


def test_cispo_lower_clip_by_hand():
    # eps_low = 0.2: weight = max(r, 0.8); old = log 1, log_prob = log 0.5.
    log_prob = rows([math.log(0.5)])
    out, flag = cispo(log_prob, rows([0.0]), rows([3.0]), eps_low=0.2, eps_high=0.2)
    close(out, -0.8 * 3.0 * log_prob)
    assert flag.tolist() == [[True]]


def test_losses_are_per_token_and_broadcast_the_advantage_of_a_row():
    torch.manual_seed(0)
    log_prob, old = torch.randn(3, 4), torch.randn(3, 4)
    advantages = torch.tensor([[1.0], [-1.0], [0.5]])
    for loss in (ppo_clip, cispo):
        out, _ = loss(log_prob, old, advantages, eps_low=0.2, eps_high=0.3)
        wide, _ = loss(log_prob, old, advantages.expand(3, 4), eps_low=0.2, eps_high=0.3)
        assert torch.equal(out, wide)
        for i, t in itertools.product(range(3), range(4)):
            one, _ = loss(
                log_prob[i : i + 1, t : t + 1], old[i : i + 1, t : t + 1], advantages[i : i + 1],
                eps_low=0.2, eps_high=0.3,
            )  # fmt: skip
            close(out[i, t], one[0, 0], 1e-6)


def test_gradients_by_finite_differences():
    torch.manual_seed(1)
    old = torch.randn(4, 5, dtype=torch.float64) - 2
    shift = torch.empty_like(old).uniform_(0.03, 0.5) * torch.randn(4, 5).sign()
    log_prob = (old + shift).requires_grad_()  # away from the kinks at r = 0.8, 1, 1.28
    for edge in (0.8, 1.28):
        assert ((log_prob - old).exp() - edge).abs().min() > 1e-4
    advantages = torch.randn(4, 1, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda x: ppo_clip(x, old, advantages, eps_low=0.2, eps_high=0.28)[0], log_prob
    )
    assert torch.autograd.gradcheck(lambda x: kl_k3(x, old), log_prob)
    # CISPO's weight is a constant by definition: freeze it, then differentiate.
    out, _ = cispo(log_prob, old, advantages, eps_low=0.2, eps_high=0.28)
    weight = (log_prob - old).exp().clamp(0.8, 1.28).detach()
    gradient = torch.autograd.grad(out.sum(), log_prob)[0]
    step = 1e-6
    up = -(weight * advantages * (log_prob.detach() + step))
    down = -(weight * advantages * (log_prob.detach() - step))
    close(gradient, (up - down) / (2 * step), 1e-8)


# ---- regularisers


def test_kl_k3_by_hand():
    # pi = 1/2, pi_ref = 1/4: d = -log 2, exp(d) - d - 1 = 1/2 + log 2 - 1.
    out = kl_k3(rows([math.log(0.5), -1.0]), rows([math.log(0.25), -1.0]))
    close(out, [[math.log(2) - 0.5, 0.0]])
    # The other way round: d = log 2, 2 - log 2 - 1.
    close(kl_k3(rows([math.log(0.25)]), rows([math.log(0.5)])), [[1 - math.log(2)]])


def test_kl_k3_is_non_negative_and_its_mean_is_the_exact_kl():
    torch.manual_seed(2)
    log_p = torch.log_softmax(torch.randn(50, 7, dtype=torch.float64) * 2, -1)
    log_ref = torch.log_softmax(torch.randn(50, 7, dtype=torch.float64) * 2, -1)
    k3 = kl_k3(log_p, log_ref)
    assert (k3 >= 0).all()
    exact = (log_p.exp() * (log_p - log_ref)).sum(1)
    close((log_p.exp() * k3).sum(1), exact, 1e-10)


# ---- aggregation


def test_aggregation_by_hand():
    # Lengths 1, 3 and 2: six tokens, three responses.
    mask = rows([1, 0, 0], [1, 1, 1], [1, 1, 0])
    sixth = 1 / 6
    close(token_mean(mask), [[sixth, 0, 0], [sixth] * 3, [sixth, sixth, 0]])
    third, ninth = 1 / 3, 1 / 9
    close(sequence_mean_token_mean(mask), [[third, 0, 0], [ninth] * 3, [sixth, sixth, 0]])
    # Losses 6, (3, 3, 0), (1, 2): token mean 15/6; sequence means 6, 2, 3/2, their mean 19/6.
    losses = rows([6, 9, 9], [3, 3, 0], [1, 2, 9])
    close((token_mean(mask) * losses).sum(), 15 / 6)
    close((sequence_mean_token_mean(mask) * losses).sum(), 19 / 6)


@pytest.mark.parametrize("aggregate", [token_mean, sequence_mean_token_mean])
def test_aggregation_weights_sum_to_one_and_ignore_padding(aggregate):
    torch.manual_seed(3)
    lengths = torch.randint(1, 9, (20, 1))
    mask = (torch.arange(9) < lengths).double()
    weights = aggregate(mask)
    close(weights.sum(), 1.0)
    assert (weights[mask == 0] == 0).all()
    wider = aggregate(torch.nn.functional.pad(mask, (0, 4)))
    close(wider[:, :9], weights)
    assert (wider[:, 9:] == 0).all()
