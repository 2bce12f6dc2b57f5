"""Every advantage against a slow reference on all groups, and its documented masses."""

import inspect
import itertools
import math
from functools import partial

import pytest
import torch
from advantage_cases import EXACT, FUNCTIONS, assert_masses, bind
from tensors import assert_close, rows

from common.errors import UserError


def by_success(weight):
    """A reference from weight(r, p, q), p the mean of the group; 0 where all are equal."""

    def slow(rewards):
        p = sum(rewards) / len(rewards)
        return [weight(r, p, 1 - p) if 0 < p < 1 else 0.0 for r in rewards]

    return slow


def slow_grpo(rewards):
    mean = sum(rewards) / len(rewards)
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
    return [(r - mean) / std if std else 0.0 for r in rewards]


def slow_signed(rewards):
    """grpo's, and the sign of right and wrong where that is 0."""
    equal = len(set(rewards)) == 1
    return [(2 * r - 1) * 2.0**-126 for r in rewards] if equal else slow_grpo(rewards)


def slow_iac(rewards, alpha):
    factor = (len(rewards) - sum(rewards)) ** alpha
    return [factor * a if a > 0 else a for a in slow_grpo(rewards)]


def slow_tang(rewards, k):
    """Over all sets of k that contain i: the best of the set less the best without i."""
    out = []
    for i, reward in enumerate(rewards):
        sets = list(itertools.combinations(rewards[:i] + rewards[i + 1 :], k - 1))
        out.append(sum(max((reward, *s)) - max(s, default=0) for s in sets) / len(sets))
    return out


def slow_chen(rewards, k):
    """Chen et al.'s definition: each set of k is one GRPO sample with reward max, and a response
    gets the mean advantage of its sets."""
    sets = list(itertools.combinations(range(len(rewards)), k))
    best = [max(rewards[i] for i in s) for s in sets]
    mean = sum(best) / len(best)
    std = math.sqrt(sum((b - mean) ** 2 for b in best) / len(best))
    out = []
    for i in range(len(rewards)):
        mine = [b for b, s in zip(best, sets, strict=True) if i in s]
        out.append((sum(mine) / len(mine) - mean) / std if std else 0.0)
    return out


def slow_mix(rewards, k):
    p = sum(rewards) / len(rewards)
    pairs = zip(slow_chen(rewards, k), slow_grpo(rewards), strict=True)
    return [p * at_k + (1 - p) * at_1 for at_k, at_1 in pairs]


def slow_lme(rewards, beta):
    def lme(values):
        return math.log(sum(math.exp(beta * v) for v in values) / len(values)) / beta

    return [lme(rewards) - lme(rewards[:i] + rewards[i + 1 :]) for i in range(len(rewards))]


def slow_risk(rewards, beta):
    soft = math.log(sum(math.exp(beta * r) for r in rewards) / len(rewards)) / beta
    return [(math.exp(beta * (r - soft)) - 1) / beta for r in rewards]


def slow_softmax(rewards, beta):
    total = sum(math.exp(beta * r) for r in rewards)
    return [math.exp(beta * r) / total - 1 / len(rewards) for r in rewards]


def slow_quantile(rewards, tau):
    step = 0 if sum(rewards) / len(rewards) <= tau else 1
    return [r - step for r in rewards]


def slow_rloo(rewards):
    total, others = sum(rewards), len(rewards) - 1
    return [r - (total - r) / others for r in rewards]


CASES = [
    ("grpo", EXACT, slow_grpo),
    ("grpo_signed", EXACT, slow_signed),
    ("focal", dict(gamma=2.0, **EXACT), by_success(lambda r, p, q: q**1.5 * (r - p) / p**0.5)),
    ("mean_only", {}, by_success(lambda r, p, q: r - p)),
    ("reinforce", {}, lambda rewards: rewards),
    ("rloo", {}, slow_rloo),
    ("asym_rl", dict(delta=0.01), lambda x: [r - sum(x) / len(x) - 0.01 for r in x]),
    ("quantile", dict(tau=0.3), partial(slow_quantile, tau=0.3)),
    ("relu", {}, by_success(lambda r, p, q: max(0, r - p))),
    ("power_norm", dict(gamma=0.25), by_success(lambda r, p, q: (r - p) / (p * q) ** 0.25)),
    ("skew_r", {}, by_success(lambda r, p, q: (r - p) * math.sqrt(p * q))),
    ("max_rl", {}, by_success(lambda r, p, q: q / p if r else -1)),
    ("binary_contrastive", {}, by_success(lambda r, p, q: 1 if r else -p / q)),
    ("power_alpha", dict(alpha=3.0, normalise=False), by_success(lambda r, p, q: q**2 * (r - p))),
    (
        "power_alpha",
        dict(alpha=2.0, normalise=True),  # C = 3^3 / (4 * 2^2) = 27/16
        by_success(lambda r, p, q: 27 / 16 * q * (r - p)),
    ),
    (
        "easy_power",
        dict(alpha=3.0, normalise=True),  # C = 4^4 / (4 * 3^3) = 256/108
        by_success(lambda r, p, q: 256 / 108 * p**2 * (r - p)),
    ),
    (
        "asym_power",
        dict(alpha_s=2.0, alpha_f=3.0),
        by_success(lambda r, p, q: q**2 if r else -(p**3)),
    ),
    (
        "ha_dw",
        dict(anchor=0.4, scale=1.3),
        by_success(
            lambda r, p, q: (r - p) * 1.3 * math.exp((0.4 - p) * (1 if r > p else -1))
        ),
    ),
    ("iac", dict(alpha=1.5, **EXACT), partial(slow_iac, alpha=1.5)),
    ("asym_grpo", dict(delta=0.5), by_success(lambda r, p, q: q if r else -p / 0.5)),
    (
        "fade",
        dict(alpha=2.5, delta=0.3),
        by_success(lambda r, p, q: q**1.5 * (q if r else -p / 0.3)),
    ),
    ("negative_only", EXACT, lambda rewards: [min(0, a) for a in slow_grpo(rewards)]),
    ("pass_at_k_tang", dict(k=2), partial(slow_tang, k=2)),
    ("pass_at_k_chen", dict(k=2), partial(slow_chen, k=2)),
    ("pass_at_k_mix", dict(k=2), partial(slow_mix, k=2)),
    ("softmax", dict(beta=2.0), partial(slow_softmax, beta=2.0)),
    ("log_mean_exp", dict(beta=2.0), partial(slow_lme, beta=2.0)),
    ("risk_sensitive", dict(beta=2.0), partial(slow_risk, beta=2.0)),
]  # fmt: skip

WHOLE_BATCH = {
    "filter_easiest",
    "overlong_iac",
    "reinforce_pp_baseline",
    "t2t",
}  # tested on their own: test_advantages_by_hand.py
SEES_MORE = {
    *("inverse_probability", "uniqueness", "batch_exploration", "unlikeliness", "ucpo"),
    *("beta_posterior", "curve"),
}  # tested in test_seen_responses.py

KEEPS_EQUAL_GROUPS = {"reinforce", "asym_rl", "grpo_signed"}

IDS = [name for name, _, _ in CASES]


def test_every_advantage_is_in_the_table_and_documents_itself():
    assert set(IDS) | WHOLE_BATCH | SEES_MORE == set(FUNCTIONS)
    for name in FUNCTIONS:
        lines = inspect.getdoc(FUNCTIONS[name]).split("\n")
        for start in ("Source: ", "m_S = "):
            assert sum(line.startswith(start) for line in lines) == 1, f"{name}: {start}"


@pytest.mark.parametrize(("name", "params", "slow"), CASES, ids=IDS)
def test_all_groups_against_a_slow_reference(name, params, slow):
    advantage = bind(name, **params)
    for size in range(2, 13):
        weights = []  # of a success and of a failure, by the number of successes
        for solved in range(size + 1):
            ordered = slow([1] * solved + [0] * (size - solved))
            weights.append((ordered[0], ordered[-1]))
        rewards = (torch.arange(2**size)[:, None] >> torch.arange(size) & 1).double()
        of_success, of_failure = rows(*weights)[rewards.sum(1).long()].T
        out = advantage(rewards)
        assert_close(out, torch.where(rewards == 1, of_success[:, None], of_failure[:, None]))
        assert advantage(rewards.float()).dtype == torch.float32
        if name not in KEEPS_EQUAL_GROUPS:
            assert torch.equal(out[[0, -1]], torch.zeros(2, size, dtype=torch.float64))


@pytest.mark.parametrize(("name", "params", "slow"), CASES, ids=IDS)
def test_documented_masses_hold_for_every_number_of_successes(name, params, slow):
    alpha = params.get("alpha", 1)
    peak = (1 + alpha) ** (1 + alpha) / (4 * alpha**alpha) if params.get("normalise") else 1
    for size in (2, 5, 8):
        for solved in range(size + 1):
            weights = bind(name, **params)(rows([1.0] * solved + [0.0] * (size - solved)))[0]
            assert_masses(name, size, solved, weights, C=peak, **params)


@pytest.mark.parametrize(("name", "params", "slow"), CASES, ids=IDS)
def test_order_and_reward_convention_do_not_matter(name, params, slow):
    torch.manual_seed(0)
    rewards = (torch.rand(9, 7) < torch.rand(9, 1)).double()
    advantage = bind(name, **params)
    out, responses, prompts = advantage(rewards), torch.randperm(7), torch.randperm(9)
    assert_close(advantage(rewards[:, responses]), out[:, responses])
    assert_close(advantage(rewards[prompts]), out[prompts])
    if "correct" in inspect.signature(FUNCTIONS[name]).parameters:
        assert_close(advantage(2 * rewards - 1), out)
        for bad in (0.5, -1.0, float("nan")):
            with pytest.raises(UserError, match="two rewards"):
                advantage(rows([0, bad, 1]))


@pytest.mark.parametrize(("name", "params", "slow"), CASES, ids=IDS)
def test_groups_of_one_and_equal_groups(name, params, slow):
    if name == "reinforce":
        assert_close(bind(name)(rows([1], [0])), [[1.0], [0.0]])
        return
    message = r"k=2: must be in 1\.\.sampling" if "k" in params else r"group_size=1: .* 2 or more"
    with pytest.raises(UserError, match=message):
        bind(name, **params)(rows([1]))
    if name not in KEEPS_EQUAL_GROUPS:
        for size in range(2, 40):  # the float32 mean of many 0.1 is not 0.1
            for reward in (0.1, -1.0, 1.0):
                same = torch.full((2, size), reward)
                for right in (reward, reward + 1):  # all correct, all wrong
                    advantage = bind(name, right=right, **params)
                    assert torch.equal(advantage(same), torch.zeros(2, size))
