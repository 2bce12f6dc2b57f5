"""Advantages that look at more than rewards: at which answers are the same, at how likely responses
were, at the whole batch's success rates. By hand, in their limits, and their masses."""

import math

import pytest
import torch
from advantage_cases import EXACT, assert_masses, bind
from tensors import assert_close, rows

from common.errors import UserError

SAME = torch.tensor([[0, 0, 1, 2]])  # the first two of four responses have one answer


def of(name: str, group: list[float], given: torch.Tensor, **params):
    word = "log_probs" if name in ("ucpo", "unlikeliness") else "outcomes"
    more = {"lengths": torch.ones(1, len(group))} if word == "log_probs" else {}
    return bind(name, **params)(rows(group), **{word: given}, **more)


def grpo(group: list[float]) -> torch.Tensor:
    return bind("grpo", **EXACT)(rows(group))


def test_inverse_probability_by_hand():
    # 1, 1 of the same answer, drawn in half of the responses: 2 each; 1 of another: 4; wrong: 0
    out = of("inverse_probability", [1, 1, 1, 0], SAME, **EXACT)
    assert_close(out, grpo([2.0, 2.0, 4.0, 0.0]))
    assert_close(of("inverse_probability", [1, 1, 1, 1], SAME, **EXACT), grpo([2.0, 2.0, 4.0, 4.0]))
    for outcomes in (torch.arange(4)[None], torch.zeros(1, 4).long()):  # all differ, all the same
        equal = of("inverse_probability", [1, 1, 0, 0], outcomes, **EXACT)
        assert_close(equal, grpo([1, 1, 0, 0]))


@pytest.mark.parametrize(
    ("alpha", "normalise", "weights"),
    [
        (1.0, False, [1 / 2, 1 / 2, 1]),
        (2.0, False, [1 / 4, 1 / 4, 1]),
        (1.0, True, [3 / 4, 3 / 4, 3 / 2]),  # over their mean, 2/3
        (0.0, False, [1, 1, 1]),
        (0.0, True, [1, 1, 1]),
    ],
)
def test_uniqueness_by_hand(alpha, normalise, weights):
    params = dict(alpha=alpha, normalise=normalise, **EXACT)
    out, plain = of("uniqueness", [1, 1, 1, 0], SAME, **params), grpo([1, 1, 1, 0])
    assert_close(out, rows([*weights, 1]) * plain)
    for group in ([1, 1, 1, 1], [0, 0, 0, 0]):
        assert not of("uniqueness", group, SAME, **params).any()


def test_batch_exploration_by_hand():
    out = of("batch_exploration", [1, 0, 1, 0], SAME, coefficient=0.5, **EXACT)
    assert_close(out, grpo([1, 0, 1, 0]) - 0.5 * rows([1 / 4, 1 / 4, 0, 0]))
    assert_close(
        of("batch_exploration", [0, 0, 0, 0], SAME, coefficient=1.0, **EXACT),
        rows([-1 / 4, -1 / 4, 0, 0]),
    )
    none = of("batch_exploration", [1, 0, 1, 0], SAME, coefficient=0.0, **EXACT)
    assert torch.equal(none, grpo([1, 0, 1, 0]))


def test_unlikeliness_by_hand():
    # beta 1/2, G = 4: of the right ones rank 3 is worth 1 - 1/2 x 3/4 = 5/8, rank 0 1, rank 2 3/4
    given = rows([-1.0, -9.0, -2.0, -3.0])
    out = of("unlikeliness", [1, 1, 1, 0], given, beta=0.5, **EXACT)
    assert_close(out, grpo([0.625, 1.0, 0.75, 0.0]))
    # a long response with likely tokens is a likely one: of -1, -0.9, -2 and -3 a token
    tenfold = bind("unlikeliness", beta=0.5, **EXACT)(
        rows([1, 1, 1, 0]), log_probs=given, lengths=rows([1, 10, 1, 1])
    )
    assert_close(tenfold, grpo([0.75, 0.625, 0.875, 0.0]))
    # only right answers: the rarer half rises; equally likely ones share a rank and stay
    every = of("unlikeliness", [1, 1, 1, 1], given, beta=0.5, **EXACT)
    assert (every.sign() == rows([-1, 1, -1, 1])).all()
    assert not of("unlikeliness", [1] * 4, rows([-2.0] * 4), beta=0.5, **EXACT).any()
    none = of("unlikeliness", [1, 1, 1, 0], given, beta=0.0, **EXACT)
    assert torch.equal(none, grpo([1, 1, 1, 0]))


def test_ucpo_by_hand():
    # s = -1 and -2 a token: 1/q is as e^1 to e^2; lengths 2 and 1 make them of -2 and -2 in all
    given = {"log_probs": rows([-2.0, -2.0, -1.0, -50.0]), "lengths": rows([2, 1, 3, 1])}
    out, plain = bind("ucpo", tau=0.3, **EXACT)(rows([1, 1, 0, 0]), **given), grpo([1, 1, 0, 0])
    share = [math.e / (math.e + math.e**2), math.e**2 / (math.e + math.e**2)]
    assert_close(out, plain * rows([*(0.7 + 0.3 * 2 * x for x in share), 1, 1]))
    for group in ([1, 1, 1, 1], [0, 0, 0, 0]):
        assert not bind("ucpo", tau=0.3, **EXACT)(rows(group), **given).any()
    assert torch.equal(bind("ucpo", tau=0.0, **EXACT)(rows([1, 1, 0, 0]), **given), plain)


def test_the_posterior_weight_by_hand():
    # n = 4, k = 3: u(X) is as comb(F + 2, 2): 10 of X = 1, 6 of 2, 3 of 3
    params = dict(k=3, **EXACT)
    for group, weight in (([1, 0, 0, 0], 1), ([1, 1, 0, 0], 6 / 10), ([1, 1, 1, 0], 3 / 10)):
        assert_close(
            bind("beta_posterior", probe=False, **params)(rows(group)), weight * grpo(group)
        )
    # u(X) is the mean of k (1 - s)^(k - 1) over Beta(X + 1, F + 1), here by summing over s
    s = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    u = [(3 * (1 - s) ** 2 * s**x * (1 - s) ** (4 - x)).mean() / math.exp(
        math.lgamma(x + 1) + math.lgamma(5 - x) - math.lgamma(6)) for x in (1, 2, 3)]  # fmt: skip
    assert [float(x / u[0]) for x in u] == pytest.approx([1, 6 / 10, 3 / 10], abs=1e-6)
    unsolved = rows([0, 0, 0, 0])
    assert not bind("beta_posterior", probe=False, **params)(unsolved).any()
    assert_close(bind("beta_posterior", probe=True, **params)(unsolved), rows([-1, -1, -1, -1]))
    solved = bind("beta_posterior", probe=True, **params)(rows([1, 1, 1, 1]))
    assert not solved.any()
    once = bind("beta_posterior", k=1, probe=False, **EXACT)(rows([1, 1, 0, 0]))
    assert torch.equal(once, grpo([1, 1, 0, 0]))


def test_curve_by_hand():
    # success rates 1/4, 1/4, 3/4, and two groups that are alike: f = 2/3, 1/3, F = 2/3, 1
    groups = ([1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1])
    out, mean = bind("curve")(rows(*groups)), bind("mean_only")(rows(*groups))
    assert_close(out, rows([1, 1, 1 / 3, 0, 0]).T * mean)
    assert_close(bind("curve")(rows([1, 1, 0, 0])), bind("mean_only")(rows([1, 1, 0, 0])))
    assert_masses("curve", 4, 2, bind("curve")(rows([1, 1, 0, 0]))[0])


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("inverse_probability", {}),
        ("uniqueness", {"alpha": 0.7, "normalise": False}),
        ("batch_exploration", {"coefficient": 0.4}),
        ("unlikeliness", {"beta": 0.4}),
        ("ucpo", {"tau": 0.4}),
    ],
)
def test_documented_masses_hold_where_right_answers_are_alike(name, params):
    for solved in range(7):
        alike = torch.tensor([[0] * solved + [*range(1, 7 - solved)]])
        given = alike if name in ("inverse_probability", "uniqueness", "batch_exploration") else (
            torch.full((1, 6), -3.0))  # fmt: skip
        group = [1.0] * solved + [0.0] * (6 - solved)
        weights = of(name, group, given, **params, **EXACT)[0]
        if name == "batch_exploration" and solved == 0:
            continue  # a group without a right answer has no mass of successes to compare
        known = params | {"c": params.get("coefficient", 0)}
        assert_masses(name, 6, solved, weights, **known)


def test_equal_weights_of_cue_grpo_leave_the_mass():
    for solved in (1, 3, 5):
        group = [1.0] * solved + [0.0] * (6 - solved)
        out = of(
            "uniqueness", group, torch.arange(6)[None] // 2, alpha=1.0, normalise=True, **EXACT
        )
        assert_close(out.sum(1), torch.zeros(1))


@pytest.mark.parametrize(("name", "params"), [("inverse_probability", {}), ("ucpo", {"tau": 0.1})])
def test_what_is_asked_for_has_the_shape_of_the_rewards(name, params):
    with pytest.raises(UserError, match=r"(log_probs|outcomes) of shape \(1, 3\)"):
        of(name, [1, 0, 0, 0], torch.zeros(1, 3), **params, **EXACT)
