"""Advantages that look at how likely responses were: by hand, and their exact step on a policy."""

import math

import pytest
import torch
from advantage_cases import EXACT, assert_masses, bind
from refuses import refuses
from tensors import assert_close, rows

from common.errors import UserError
from common.methods import exact
from common.methods import theory as lab
from common.methods.binding import all_groups, group_weights
from common.methods.binding import bind as method_of
from common.methods.theory import compose

POLICY = torch.tensor([0.4, 0.1, 0.35, 0.15], dtype=torch.float64)
CORRECT = torch.tensor([True, True, False, False])


def test_unlikeliness_by_hand():
    # beta 1/2, G = 4: of the right ones rank 0 is worth 1 - 1/2 x 4/4 = 1/2, rank 3 7/8, rank 1 5/8
    advantage = bind("unlikeliness", beta=0.5, **EXACT)
    given = rows([-1.0, -9.0, -2.0, -3.0])
    r = [0.5, 0.875, 0.625, 0.0]
    mean = sum(r) / 4
    std = math.sqrt(sum((x - mean) ** 2 for x in r) / 4)
    out = advantage(rows([1, 1, 1, 0]), log_probs=given)
    assert_close(out, [[(x - mean) / std for x in r]])
    # only right answers: the rarer half rises; equally likely ones share a rank and stay
    assert (advantage(rows([1, 1, 1, 1]), log_probs=given).sign() == rows([-1, 1, -1, 1])).all()
    assert not advantage(rows([1, 1, 1, 1]), log_probs=rows([-2.0] * 4)).any()
    assert not advantage(rows([0, 0, 0, 0]), log_probs=given).any()
    assert_close(advantage(rows([1, 1, 1, -1]), log_probs=given), out)
    plain = bind("grpo", **EXACT)(rows([1, 1, 1, 0]))
    assert torch.equal(
        bind("unlikeliness", beta=0.0, **EXACT)(rows([1, 1, 1, 0]), log_probs=given), plain
    )


def test_ucpo_by_hand():
    # s = -1 and -2 a token: 1/q is as e^1 to e^2; lengths 2 and 1 make them of -2 and -2 in all
    advantage, plain = bind("ucpo", tau=0.3, **EXACT), bind("grpo", **EXACT)(rows([1, 1, 0, 0]))
    given = {"log_probs": rows([-2.0, -2.0, -1.0, -50.0]), "lengths": rows([2, 1, 3, 1])}
    out = advantage(rows([1, 1, 0, 0]), **given)
    share = [math.e / (math.e + math.e**2), math.e**2 / (math.e + math.e**2)]
    expected = [0.7 + 0.3 * 2 * x for x in share]
    assert_close(out[0, :2], plain[0, :2] * rows(expected)[0])
    assert torch.equal(out[0, 2:], plain[0, 2:])
    assert_close(out.sum(), 0.0)
    for group in ([1, 1, 1, 1], [0, 0, 0, 0]):
        assert not advantage(rows(group), **given).any()
    lone = advantage(rows([0, 1, 0, 0]), **given)
    assert torch.equal(lone, bind("grpo", **EXACT)(rows([0, 1, 0, 0])))
    assert torch.equal(bind("ucpo", tau=0.0, **EXACT)(rows([1, 1, 0, 0]), **given), plain)


@pytest.mark.parametrize(
    ("name", "params"), [("ucpo", {"tau": 0.4}), ("unlikeliness", {"beta": 0.4})]
)
def test_masses_are_grpos_where_responses_are_equally_likely(name, params):
    more = {"lengths": torch.ones(1, 6)} if name == "ucpo" else {}
    for solved in range(7):
        given = {"log_probs": torch.full((1, 6), -3.0), **more}
        group = rows([1.0] * solved + [0.0] * (6 - solved))
        weights = bind(name, **params, **EXACT)(group, **given)[0]
        assert_masses(name, 6, solved, weights)


def test_ucpos_mass_is_grpos_whatever_the_likelihoods_are():
    torch.manual_seed(0)
    rewards = (torch.rand(50, 8) < torch.rand(50, 1)).double()
    given = {"log_probs": -9 * torch.rand(50, 8), "lengths": torch.randint(1, 9, (50, 8))}
    out = bind("ucpo", tau=1.0, **EXACT)(rewards, **given)
    plain = bind("grpo", **EXACT)(rewards)
    for side in (0, 1):
        held = torch.where(rewards == side, out, 0).sum(1)
        assert_close(held, torch.where(rewards == side, plain, 0).sum(1))


@pytest.mark.parametrize("name", ["ucpo", "unlikeliness"])
def test_bad_input_is_refused(name):
    key = {"ucpo": "tau", "unlikeliness": "beta"}[name]
    more = {"lengths": torch.ones(1, 2)} if name == "ucpo" else {}
    with pytest.raises(UserError, match=f"method.advantage.{key}=1.5: must be in"):
        bind(name, **{key: 1.5}, **EXACT)(rows([1, 0]), log_probs=rows([-1.0, -2.0]), **more)
    with pytest.raises(UserError, match=r"log_probs of shape \(1, 3\)"):
        bind(name, **{key: 0.5}, **EXACT)(rows([1, 0]), log_probs=torch.ones(1, 3), **more)


# ---- the lab


def enumerated(*words: str) -> torch.Tensor:
    given = compose(list(words))
    bound, arguments = lab.start(given)
    fixed = {"G": given.G, "reward": given.reward, "arguments": arguments}
    return exact.enumerated_update(bound, POLICY, CORRECT, **fixed)


@pytest.mark.parametrize("name", ["grpo", "f_grpo", "max_rl"])
def test_summing_over_all_groups_is_the_closed_form(name):
    given = compose([f"method={name}", "G=6"])
    weights = group_weights(method_of(given.method), all_groups(6), given.reward, {})
    expected = exact.expected_update(weights, POLICY, CORRECT)
    assert_close(enumerated(f"method={name}", "G=6"), expected, 1e-12)


@pytest.mark.parametrize(("name", "key"), [("ucpo", "tau"), ("unlikeliness", "beta")])
def test_the_rarer_right_answer_is_pushed_more(name, key):
    """The push on an answer beside its probability: GRPO's is the same for both right answers."""
    plain = enumerated("method=grpo", "G=8") / POLICY
    assert_close(plain[0], plain[1])
    one, zero = (enumerated(f"method={name}", f"{key}={x}", "G=8") / POLICY for x in (0.5, 0.0))
    assert_close(zero, plain, 1e-9)
    assert one[1] > one[0] + 0.05
    assert one[:2].min() > one[2:].max()  # and right ones still rise above wrong ones
    if name == "ucpo":
        assert_close(one[2], one[3])


def test_the_command_enumerates_and_refuses_too_many(capsys):
    words = ["policy=[0.4,0.1,0.35,0.15]", "correct=[0,1]", "json=true"]
    lab.main(["method=ucpo", "tau=0.5", "G=8", *words])
    shown = capsys.readouterr().out
    update = enumerated("method=ucpo", "tau=0.5", "G=8")
    assert f'"expected_update": {update.tolist()}'[:60] in shown
    with refuses("G", "512"):
        lab.main(["method=ucpo", "G=512", *words])
