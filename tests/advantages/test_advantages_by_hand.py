import itertools
import math
import re

import pytest
import torch
from advantage_cases import EXACT, assert_masses, bind
from tensors import assert_close, rows

from common.errors import UserError

# ---- by hand: one right of four (p = 1/4) and three right of four (p = 3/4)


E2 = math.exp(2)
UNBIASED = dict(unbiased=True, epsilon=0.0)

THIRD, HALF, ROOT3 = 1 / 3, math.sqrt(3) / 4, math.sqrt(3)  # HALF = sqrt(p q) for both


@pytest.mark.parametrize(
    ("name", "params", "hard", "easy"),
    [  # (success, failure) of the group 1000, then of 1110
        ("mean_only", {}, (3 / 4, -1 / 4), (1 / 4, -3 / 4)),
        # squares 9/16 + 3/16 = 3/4 of both groups: std sqrt((3/4) / 3) = 1/2, or sqrt(3)/4
        ("grpo", UNBIASED, (3 / 2, -1 / 2), (1 / 2, -3 / 2)),
        ("grpo", EXACT, (ROOT3, -1 / ROOT3), (1 / ROOT3, -ROOT3)),
        ("grpo", dict(unbiased=True, epsilon=0.25), (1, -THIRD), (THIRD, -1)),  # 3/4 / (1/2 + 1/4)
        ("focal", dict(gamma=0.5, **UNBIASED), (ROOT3 * 3 / 4, -ROOT3 / 4), (1 / 4, -3 / 4)),
        ("focal", dict(gamma=2.0, **UNBIASED), (27 / 32, -9 / 32), (1 / 32, -3 / 32)),
        ("rloo", {}, (1, -THIRD), (THIRD, -1)),  # 1 - 0/3, 0 - 1/3; 1 - 2/3, 0 - 3/3
        ("asym_rl", dict(delta=0.01), (0.74, -0.26), (0.24, -0.76)),
        ("quantile", dict(tau=0.4), (1, 0), (0, -1)),  # 1/4 <= 0.4 < 3/4
        ("quantile", dict(tau=0.75), (1, 0), (1, 0)),  # 3/4 <= tau
        ("quantile", dict(tau=0.2), (0, -1), (0, -1)),
        ("relu", {}, (3 / 4, 0), (1 / 4, 0)),
        ("power_norm", dict(gamma=1.0), (4, -4 / 3), (4 / 3, -4)),  # over p q = 3/16
        ("skew_r", {}, (HALF * 3 / 4, -HALF / 4), (HALF / 4, -HALF * 3 / 4)),
        ("max_rl", {}, (3, -1), (THIRD, -1)),
        ("binary_contrastive", {}, (1, -THIRD), (1, -3)),
        ("power_alpha", dict(alpha=2.0, normalise=False), (9 / 16, -3 / 16), (1 / 16, -3 / 16)),
        ("easy_power", dict(alpha=2.0, normalise=False), (3 / 16, -1 / 16), (3 / 16, -9 / 16)),
        ("asym_power", dict(alpha_s=2.0, alpha_f=3.0), (9 / 16, -1 / 64), (1 / 16, -27 / 64)),
        (
            "ha_dw",  # p - C_t = -1/4: successes e^(1/4), failures e^(-1/4); at 3/4 the reverse
            dict(anchor=0.5, scale=2.0),
            (1.5 * math.exp(0.25), -0.5 * math.exp(-0.25)),
            (0.5 * math.exp(-0.25), -1.5 * math.exp(0.25)),
        ),
        ("iac", dict(alpha=1.0, **EXACT), (3 * ROOT3, -1 / ROOT3), (1 / ROOT3, -ROOT3)),  # x 3, x 1
        ("asym_grpo", dict(delta=0.5), (3 / 4, -1 / 2), (1 / 4, -3 / 2)),
        ("fade", dict(alpha=2.0, delta=0.5), (9 / 16, -3 / 8), (1 / 16, -3 / 8)),  # x q
        ("negative_only", EXACT, (0, -1 / ROOT3), (0, -ROOT3)),
        ("pass_at_k_tang", dict(k=1), (1, 0), (1, 0)),  # REINFORCE
        ("pass_at_k_tang", dict(k=2), (1, 0), (THIRD, 0)),  # 3 of 3 others fail; 1 of 3
        ("pass_at_k_tang", dict(k=4), (1, 0), (0, 0)),  # the only success
        # F = 3, k = 2: 1 - R = 3/6, sigma = 1/2, Q' = 2/3: 1, (1/2 - 2/3) * 2. F = 1 < 2: 0.
        ("pass_at_k_chen", dict(k=2), (1, -THIRD), (0, 0)),
        ("pass_at_k_mix", dict(k=2), (1 / 4 + 3 / 4 * ROOT3, -1 / 12 - ROOT3 / 4),
         (1 / 4 / ROOT3, -ROOT3 / 4)),
        ("softmax", dict(beta=2.0), (E2 / (E2 + 3) - 0.25, 1 / (E2 + 3) - 0.25),
         (E2 / (3 * E2 + 1) - 0.25, 1 / (3 * E2 + 1) - 0.25)),
        # Without the success lme(0, 0, 0) = 0; without a failure the mean is (e^2 + 2) / 3.
        ("log_mean_exp", dict(beta=2.0),
         (math.log((E2 + 3) / 4) / 2, math.log((E2 + 3) / 4 / ((E2 + 2) / 3)) / 2),
         (math.log((3 * E2 + 1) / 4 / ((2 * E2 + 1) / 3)) / 2, math.log((3 * E2 + 1) / 4) / 2 - 1)),
    ],
)  # fmt: skip
def test_by_hand(name, params, hard, easy):
    out = bind(name, **params)(rows([0, 1, 0, 0], [1, 1, 0, 1]))
    assert_close(out, [[hard[1], hard[0], hard[1], hard[1]], [easy[0], easy[0], easy[1], easy[0]]])


def test_other_rewards_where_they_are_defined():
    # Rewards 1, 2, 6: mean 3, median 2, leave-one-out means 4, 7/2, 3/2.
    group_of_three = rows([1, 2, 6])
    assert_close(bind("mean_only")(group_of_three), [[-2, -1, 3]])
    assert_close(bind("grpo", **UNBIASED)(rows([-1, 1])), [[-math.sqrt(0.5), math.sqrt(0.5)]])
    assert_close(bind("rloo")(group_of_three), [[-3, -1.5, 4.5]])
    assert_close(bind("quantile", tau=0.5)(group_of_three), [[-1, 0, 4]])
    assert_close(bind("relu")(group_of_three), [[0, 0, 3]])
    assert_close(bind("asym_grpo", delta=0.5)(group_of_three), [[-4, -2, 3]])
    assert_close(bind("quantile", tau=0.2)(group_of_three), [[-5, -4, 0]])
    assert_close(
        bind("quantile", tau=0.29)(torch.arange(100).double()[None])[0, 70], 0
    )  # 29 above it
    assert_close(bind("reinforce")(group_of_three), group_of_three)
    assert_close(bind("log_mean_exp", beta=60.0)(rows([0, 1, 1, 30]))[0, 3], 29 - math.log(2) / 60
          - (math.log(4) - math.log(3)) / 60)  # fmt: skip


def test_reductions():
    r = torch.tensor(list(itertools.product([0.0, 1.0], repeat=7)), dtype=torch.float64)
    mean, plain = bind("mean_only")(r), bind("grpo", **EXACT)(r)
    for name, params in {
        "power_alpha": dict(alpha=1.0, normalise=True),
        "easy_power": dict(alpha=1.0, normalise=True),
        "asym_power": dict(alpha_s=1.0, alpha_f=1.0),
        "asym_grpo": dict(delta=1.0),
        "fade": dict(alpha=1.0, delta=1.0),
        "power_norm": dict(gamma=0.0),
        "asym_rl": dict(delta=0.0),
    }.items():
        assert torch.equal(bind(name, **params)(r), mean), name
    for name, params in {
        "iac": dict(alpha=0.0, **EXACT),
        "filter_easiest": dict(fraction=0.0, **EXACT),
        "focal": dict(gamma=0.0, **EXACT),
    }.items():
        assert torch.equal(bind(name, **params)(r), plain), name
    assert_close(bind("pass_at_k_chen", k=1)(r), plain)
    assert_close(bind("pass_at_k_mix", k=1)(r), plain)
    assert_close(bind("power_norm", gamma=0.5)(r), plain)
    assert_close(bind("power_alpha", alpha=0.0, normalise=False)(r), bind("binary_contrastive")(r))
    assert_close(bind("easy_power", alpha=0.0, normalise=False)(r), bind("max_rl")(r))
    assert torch.equal(bind("pass_at_k_tang", k=1)(r), r)
    for values in (r, torch.randn(20, 8)):  # MC-GRPO of an odd and an even group
        median = values.median(1, keepdim=True).values
        assert torch.equal(bind("quantile", tau=0.5)(values), values - median)


# ---- those that see more than one group, or lengths


def test_filter_easiest_by_hand():
    # Success rates 3/4, 1/4, 3/4, 1/2. Half of four prompts: both 3/4 go. A quarter: they share it.
    # Three quarters: both 3/4 and the 1/2. 0.6: 2.4 prompts, so 0.4 of the third.
    r = rows([1, 1, 1, 0], [1, 0, 0, 0], [1, 0, 1, 1], [1, 1, 0, 0])
    plain = bind("grpo", **EXACT)(r)
    for fraction, kept in {
        0.25: (0.5, 1, 0.5, 1), 0.5: (0, 1, 0, 1), 0.75: (0, 1, 0, 0), 0.6: (0, 1, 0, 0.6),
        1.0: (0, 0, 0, 0),
    }.items():  # fmt: skip
        advantage = bind("filter_easiest", fraction=fraction, **EXACT)
        assert_close(advantage(r), rows(kept).T * plain)
        shuffled = torch.tensor([2, 0, 3, 1])
        assert_close(advantage(r[shuffled]), advantage(r)[shuffled])
        for row, weight in enumerate(kept):
            solved = int(r[row].sum())
            weights = advantage(r)[row][r[row].argsort(descending=True)]
            assert_masses("filter_easiest", 4, solved, weights, w=weight)
    # All right is the easiest, and it is among the filtered: 1/4 of four prompts is that one.
    filtered = bind("filter_easiest", fraction=0.25, **EXACT)(rows([1, 1], [1, 0], [1, 0], [0, 0]))
    assert_close(filtered, [[0, 0], [1, -1], [1, -1], [0, 0]])


def test_t2t_by_hand():
    # alpha 1/2, lengths over 8: p = 1/2. Successes 1 - L/4: 15/16 (L = 1/4), 7/8 (L = 1/2).
    # Failures L/4: 1/4 (L = 1), 1/8 (L = 1/2). Times 16: 15, 14, 4, 2, mean 35/4.
    advantage = bind("t2t", alpha=0.5, max_tokens=8, **EXACT)
    out = advantage(rows([1, 1, 0, 0]), lengths=torch.tensor([[2, 4, 8, 4]]))
    sixteenths = [25 / 4, 21 / 4, -19 / 4, -27 / 4]
    sigma = math.sqrt(sum(d * d for d in sixteenths) / 4)
    assert_close(out, [[d / sigma for d in sixteenths]])
    c = 1 - 0.25 * (0.25 + 0.5) / 2 - 0.25 * (1 + 0.5) / 2
    assert_masses("t2t", 4, 2, out[0], c=c, sigma=sigma / 16)
    # All right, unequal lengths: the shorter is better. Equal lengths: nothing.
    assert_close(advantage(rows([1, 1]), lengths=torch.tensor([[2, 4]])), [[1, -1]])
    assert_close(advantage(rows([0, 0]), lengths=torch.tensor([[2, 4]])), [[-1, 1]])
    assert not advantage(rows([1, 1, 1]), lengths=torch.full((1, 3), 7)).any()
    assert torch.equal(advantage(rows([1, 1, -1, -1]), lengths=torch.tensor([[2, 4, 8, 4]])), out)
    assert_close(
        bind("t2t", alpha=0.0, max_tokens=8, **EXACT)(rows([1, 0]), lengths=rows([3, 5])), [[1, -1]]
    )


def test_overlong_iac_by_hand():
    # Limit 10, buffer 0.2: up to 8 tokens nothing is lost, 9 lose a half, 10 all of the penalty 2.
    given = dict(buffer=0.2, penalty=2.0, max_tokens=10, **EXACT)
    lengths = torch.tensor([[3, 8, 9, 10]])
    # 1, 1, 0 - 1, 0 - 2: mean -1/4, times 4: 5, 5, -3, -7, squares 108, over 4: 27.
    sigma = math.sqrt(27)
    plain = bind("overlong_iac", alpha=0.0, **given)(rows([1, 1, 0, 0]), lengths=lengths)
    assert_close(plain, [[5 / sigma, 5 / sigma, -3 / sigma, -7 / sigma]])
    # Two of four have A > 0: times 4 - 2.
    both = bind("overlong_iac", alpha=1.0, **given)(rows([1, 1, 0, 0]), lengths=lengths)
    assert_close(both, [[10 / sigma, 10 / sigma, -3 / sigma, -7 / sigma]])
    # All right, one too long; all short: nothing, and elsewhere IAC.
    alone = bind("overlong_iac", alpha=0.0, **given)(rows([1, 1]), lengths=torch.tensor([[3, 10]]))
    assert_close(alone, [[1, -1]])
    short = torch.full((1, 4), 8)
    assert not bind("overlong_iac", alpha=1.0, **given)(rows([1] * 4), lengths=short).any()
    group = rows([1, 0, 0, 0])
    out = bind("overlong_iac", alpha=1.0, **given)(group, lengths=short)
    assert_close(out, bind("iac", alpha=1.0, **EXACT)(group))
    assert_masses("overlong_iac", 4, 1, out[0], alpha=1.0)
    for changed, said in (
        (dict(buffer=0.0), "buffer=0.0: must be in (0, 1]"),
        (dict(penalty=-1.0), "penalty=-1.0: must be >= 0"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            bind("overlong_iac", alpha=0.0, **(given | changed))(group, lengths=short)
    with pytest.raises(UserError, match="lengths of shape"):
        bind("overlong_iac", alpha=0.0, **given)(group, lengths=torch.ones(1, 3))


def slow_whiten(rewards, lengths, epsilon):
    """Tokens laid out one by one, as verl does; each response's first token is its weight."""
    centred = [[r - sum(g) / len(g) for r in g] for g in rewards]
    tokens = [
        c for cs, ts in zip(centred, lengths, strict=True)
        for c, t in zip(cs, ts, strict=True) for _ in range(t)
    ]  # fmt: skip
    mean = sum(tokens) / (len(tokens) + epsilon)
    variance = sum((t - mean) ** 2 for t in tokens) / (len(tokens) + epsilon)
    variance *= len(tokens) / (len(tokens) - 1)
    return [[(c - mean) / math.sqrt(variance + epsilon) for c in cs] for cs in centred]


def test_reinforce_pp_baseline():
    advantage = bind("reinforce_pp_baseline", epsilon=1e-8)
    # One right of two, lengths 3 and 1: tokens 1/2 x 3, -1/2: mean 1/4, squares 3/16 + 9/16 = 3/4,
    # variance 3/4 / 3 = 1/4: A = (1/2 - 1/4) * 2, (-1/2 - 1/4) * 2.
    assert_close(advantage(rows([1, 0]), lengths=torch.tensor([[3, 1]])), [[0.5, -1.5]], 1e-6)
    torch.manual_seed(1)
    for size in (2, 5):
        rewards = (torch.rand(4, size) < 0.5).double()
        lengths = torch.randint(1, 9, (4, size))
        out = advantage(rewards, lengths=lengths)
        assert_close(out, slow_whiten(rewards.tolist(), lengths.tolist(), 1e-8))
        assert_close((out * lengths).sum(), 0.0, 1e-6)
        prompts = torch.randperm(4)
        assert_close(advantage(rewards[prompts], lengths=lengths[prompts]), out[prompts])
    for solved in range(1, 4):  # equal lengths: the token mean is 0
        r = rows([1.0] * solved + [0.0] * (4 - solved))
        p = solved / 4
        sigma = math.sqrt(p * (1 - p) * 4 / 3)
        weights = bind("reinforce_pp_baseline", epsilon=0.0)(r, lengths=torch.ones(1, 4))[0]
        assert_masses("reinforce_pp_baseline", 4, solved, weights, sigma=sigma)
    assert not advantage(rows([1, 1], [0, 0]), lengths=torch.tensor([[3, 1], [1, 1]])).any()
    for name, params in (("reinforce_pp_baseline", dict(epsilon=1e-8)),
                         ("t2t", dict(alpha=0.1, max_tokens=9, **EXACT))):  # fmt: skip
        with pytest.raises(UserError, match="lengths of shape"):
            bind(name, **params)(rows([1, 0]), lengths=torch.ones(1, 3))
        with pytest.raises(UserError, match="2 or more"):
            bind(name, **params)(rows([1]), lengths=torch.ones(1, 1))


ALIKE = dict(outcomes=torch.tensor([[0, 1]]), **EXACT)
LIKELY = dict(log_probs=rows([-1, -2]), lengths=rows([1, 1]), **EXACT)


@pytest.mark.parametrize(
    ("name", "params", "key"),
    [
        ("focal", dict(gamma=-0.5, **EXACT), "gamma=-0.5: must be >= 0"),
        ("power_alpha", dict(alpha=-1.0, normalise=False), "alpha=-1.0: must be >= 0"),
        ("easy_power", dict(alpha=-1.0, normalise=False), "alpha=-1.0: must be >= 0"),
        ("asym_power", dict(alpha_s=-1.0, alpha_f=1.0), "alpha_s=-1.0: must be >= 0"),
        ("asym_power", dict(alpha_s=1.0, alpha_f=-1.0), "alpha_f=-1.0: must be >= 0"),
        ("iac", dict(alpha=-1.0, **EXACT), "alpha=-1.0: must be >= 0"),
        ("fade", dict(alpha=-1.0, delta=1.0), "alpha=-1.0: must be >= 0"),
        ("fade", dict(alpha=1.0, delta=0.0), "delta=0.0: must be > 0"),
        ("asym_grpo", dict(delta=0.0), "delta=0.0: must be > 0"),
        ("ha_dw", dict(anchor=0.5, scale=0.0), "scale=0.0: must be > 0"),
        ("power_norm", dict(gamma=-1.0), "gamma=-1.0: must be >= 0"),
        ("quantile", dict(tau=1.0), "tau=1.0: must be in (0, 1)"),
        ("softmax", dict(beta=0.0), "beta=0.0: must be > 0"),
        ("log_mean_exp", dict(beta=0.0), "beta=0.0: must be > 0"),
        ("filter_easiest", dict(fraction=1.5, **EXACT), "fraction=1.5: must be in [0, 1]"),
        ("pass_at_k_tang", dict(k=3), "k=3: must be in 1..sampling.group_size=2"),
        ("pass_at_k_chen", dict(k=0), "k=0: must be in 1..sampling.group_size=2"),
        ("pass_at_k_mix", dict(k=3), "k=3: must be in 1..sampling.group_size=2"),
        ("beta_posterior", dict(k=0, probe=False, **EXACT), "k=0: must be at least 1"),
        ("uniqueness", dict(alpha=-1.0, normalise=False, **ALIKE), "alpha=-1.0: must be >= 0"),
        ("batch_exploration", dict(coefficient=-1.0, **ALIKE), "coefficient=-1.0: must be >= 0"),
        ("unlikeliness", dict(beta=1.5, **LIKELY), "beta=1.5: must be in [0, 1]"),
        ("ucpo", dict(tau=-0.1, **LIKELY), "tau=-0.1: must be in [0, 1]"),
    ],
)
def test_values_out_of_range(name, params, key):
    with pytest.raises(UserError, match=re.escape(f"method.advantage.{key}")):
        bind(name, **params)(rows([1, 0]))
