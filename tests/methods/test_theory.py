import itertools
import json
import math

import pytest
import torch
from refuses import refuses

from common.methods import theory
from common.methods.binding import all_groups, bind, group_weights
from common.methods.exact import entropy, expected_update, masses
from common.methods.rate import at_start
from common.methods.theory import compose


def weights_of(*arguments: str) -> torch.Tensor:
    asked = compose(list(arguments))
    bound = bind(asked.method)
    return group_weights(bound, all_groups(asked.G), asked.reward, at_start(bound))


def answer(capsys, *arguments: str) -> dict:
    theory.main([*arguments, "json=true"])
    return json.loads(capsys.readouterr().out)


def test_masses_by_hand():
    # Mean GRPO, G = 2, p = 0.3: X = 1 has probability 2 * 0.3 * 0.7 = 0.42 and weights 1/2, -1/2,
    # so m_S = 0.42 * (1/2) / 2 = 0.105 = m_F; E|A| = 0.42 / 2 = 0.21, E A^2 = 0.42 / 4 = 0.105,
    # N_eff = 2 * 0.21^2 / 0.105 = 0.84; the mass of a group is 1/4 with probability 0.42.
    mass = masses(weights_of("method=mean_only", "G=2"), 0.3)
    expected = {
        "m_S": 0.105, "m_F": 0.105, "rho": 3 / 7, "N_eff": 0.84, "var": 0.105,
        "var_group": 0.42 * 0.58 / 16,
    }  # fmt: skip
    assert mass == pytest.approx(expected)
    # AsymGRPO with delta = 1/2: the group's masses are 1/4 and 1/2, their mean 3/8.
    mass = masses(weights_of("method=asym_grpo", "delta=0.5", "G=2"), 0.3)
    assert mass["var_group"] == pytest.approx(0.42 * 0.58 * (3 / 8) ** 2)


def test_tables_7_and_8(capsys):
    # Table 7: sign-balanced methods share p / (1 - p), AsymGRPO has delta times that.
    assert answer(capsys, "method=grpo", "p=0.3")["rho"] == pytest.approx(3 / 7)
    asym = answer(capsys, "method=asym_grpo", "delta=0.5", "p=0.5")
    assert asym["rho"] == pytest.approx(0.5)
    # Table 8: alpha = 3 at p = 1/4 asks for [2 (1 - p)]^2 = 2.25 times the signal of p = 1/2 in
    # large groups, and for less in groups of 16 ("at finite G the multipliers ease").
    large = answer(capsys, "method=power_alpha", "alpha=3", "p=0.25", "G=800")["enrichment"]
    assert large == pytest.approx(2.25, rel=0.01)
    small = answer(capsys, "method=power_alpha", "alpha=3", "p=0.25", "G=16")["enrichment"]
    assert 0.7 * 2.25 < small < large


POLICY = torch.tensor([0.35, 0.25, 0.2, 0.15, 0.05], dtype=torch.float64)
CORRECT = torch.tensor([True, False, False, True, False])


def test_the_expected_update_against_all_action_sequences():
    G, by_count = 3, weights_of("method=iac", "G=3")
    exact = torch.zeros(5, dtype=torch.float64)
    for actions in itertools.product(range(5), repeat=G):
        chance = math.prod(POLICY[a].item() for a in actions)
        X = sum(CORRECT[a].item() for a in actions)
        for a in actions:
            weight = by_count[X, 0] if CORRECT[a] else by_count[X, G - 1]
            score = torch.nn.functional.one_hot(torch.tensor(a), 5) - POLICY
            exact += chance * weight * score / G
    torch.testing.assert_close(expected_update(by_count, POLICY, CORRECT), exact)


def test_a_step_changes_entropy_by_minus_the_covariance_to_first_order():
    # FADE Eq. 7 adds a drift (m_S - m_F) H; on the exact natural gradient there is none. Here the
    # plain gradient: dH / eta = -sum_a pi_a (log pi_a + H) g_a for an update g of the logits.
    g = expected_update(weights_of("method=asym_grpo", "delta=0.5", "G=8"), POLICY, CORRECT)
    eta = 1e-6
    new = torch.softmax(POLICY.log() + eta * g, 0)
    H = entropy(POLICY)
    slope = -(POLICY * (POLICY.log() + H) * g).sum().item()
    assert (entropy(new) - H) / eta == pytest.approx(slope, rel=1e-4)
    assert new.sum().item() == pytest.approx(1)


# ---- the command


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (["method=power_alpha", "gama=2"], "method.advantage.gama", 2),
        (["method=nothing"], "method", "nothing"),
        (["p=1.5"], "p", 1.5),
        (["method=grpo", "G=1"], "sampling.group_size", 1),
    ],
)
def test_bad_input_is_named(arguments, key, value):
    with refuses(key, value):
        theory.main(arguments)
