import inspect

import pytest
import torch
from advantage_cases import EXACT, FUNCTIONS, assert_masses, bind
from tensors import assert_close, rows

from common.errors import UserError

CASES = [
    ("grpo", EXACT),
    ("grpo_signed", EXACT),
    ("focal", dict(gamma=2.0, **EXACT)),
    ("mean_only", {}),
    ("reinforce", {}),
    ("rloo", {}),
    ("asym_rl", dict(delta=0.01)),
    ("quantile", dict(tau=0.3)),
    ("relu", {}),
    ("power_norm", dict(gamma=0.25)),
    ("skew_r", {}),
    ("max_rl", {}),
    ("binary_contrastive", {}),
    ("power_alpha", dict(alpha=3.0, normalise=False)),
    ("power_alpha", dict(alpha=2.0, normalise=True)),
    ("easy_power", dict(alpha=3.0, normalise=True)),
    ("asym_power", dict(alpha_s=2.0, alpha_f=3.0)),
    ("ha_dw", dict(anchor=0.4, scale=1.3)),
    ("iac", dict(alpha=1.5, **EXACT)),
    ("asym_grpo", dict(delta=0.5)),
    ("fade", dict(alpha=2.5, delta=0.3)),
    ("negative_only", EXACT),
    ("pass_at_k_tang", dict(k=2)),
    ("pass_at_k_chen", dict(k=2)),
    ("pass_at_k_mix", dict(k=2)),
    ("softmax", dict(beta=2.0)),
    ("log_mean_exp", dict(beta=2.0)),
    ("risk_sensitive", dict(beta=2.0)),
]

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

IDS = [name for name, _ in CASES]


def test_every_advantage_is_in_the_table_and_documents_itself():
    assert set(IDS) | WHOLE_BATCH | SEES_MORE == set(FUNCTIONS)
    for name in FUNCTIONS:
        lines = inspect.getdoc(FUNCTIONS[name]).split("\n")
        for start in ("Source: ", "m_S = "):
            assert sum(line.startswith(start) for line in lines) == 1, f"{name}: {start}"


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
def test_documented_masses_hold_for_every_number_of_successes(name, params):
    alpha = params.get("alpha", 1)
    peak = (1 + alpha) ** (1 + alpha) / (4 * alpha**alpha) if params.get("normalise") else 1
    for size in range(2, 13):
        for solved in range(size + 1):
            weights = bind(name, **params)(rows([1.0] * solved + [0.0] * (size - solved)))[0]
            assert_masses(name, size, solved, weights, C=peak, **params)


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
def test_order_and_reward_convention_do_not_matter(name, params):
    torch.manual_seed(0)
    rewards = (torch.rand(9, 7) < torch.rand(9, 1)).double()
    advantage = bind(name, **params)
    out, responses, prompts = advantage(rewards), torch.randperm(7), torch.randperm(9)
    assert_close(advantage(rewards[:, responses]), out[:, responses])
    assert_close(advantage(rewards[prompts]), out[prompts])
    assert advantage(rewards.float()).dtype == torch.float32
    if "correct" in inspect.signature(FUNCTIONS[name]).parameters:
        assert_close(advantage(2 * rewards - 1), out)
        for bad in (0.5, -1.0, float("nan")):
            with pytest.raises(UserError, match="two rewards"):
                advantage(rows([0, bad, 1]))


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
def test_groups_of_one_and_equal_groups(name, params):
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
