"""SimKO: by hand, against the formula with its ratios, its limits, and what it is for."""

import itertools
import json
import math
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from loss_batches import CLIP, batch, real_tokens
from refuses import refuses
from tensors import assert_close, rows

from common.advantages.group import grpo
from common.api import policy_loss, token_loss
from common.errors import UserError
from common.experiment import load
from common.losses.clip import ppo_clip
from common.losses.top_tokens import above_quantile, simko
from common.methods import exact, theory
from common.methods.binding import all_groups, bind, group_weights

PAPER = {"alpha": 0.01, "lambda_top1": 1.1, "tau": 0.8}


def likeliest(seed: int, K: int, B: int = 12, T: int = 9) -> dict:
    """Entropies, log-probabilities of K tokens, and whether the likeliest was drawn."""
    torch.manual_seed(seed)
    return {
        "entropy": torch.rand(B, T, dtype=torch.float64),
        "top_log_prob": -torch.rand(B, T, K, dtype=torch.float64),
        "drawn_top": torch.rand(B, T) < 0.5,
        "K": K,
    }


def test_the_quantile_by_hand():
    # 0.5 of 1, 2, 4 is 2; of 1, 3 it is 2, between them; of one value it is that value.
    values = rows([4, 1, 2, 9], [3, 1, 9, 9], [5, 9, 9, 9])
    mask = rows([1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0])
    chosen = above_quantile(values, mask, 0.5)
    assert chosen.tolist() == [[True] + [False] * 3, [True] + [False] * 3, [False] * 4]
    assert above_quantile(values, mask, 0.0).sum(1).tolist() == [2, 1, 0]  # the least is not above
    assert not above_quantile(values, mask, 1.0).any()
    assert not above_quantile(values, torch.zeros_like(mask), 0.5).any()  # nor nan


def test_by_hand():
    # Two responses of two tokens; the quantile 0.5 lies between their entropies: the first tokens.
    # A = 2 with r = 1.1: value -2.2; slopes -(3/4) 2.2 on the token, -(1/8) 2.2 on either other.
    # A = -3 with r = 0.9, the likeliest drawn: doubled, value and slope 5.4.
    old = torch.full((2, 2), -1.3, dtype=torch.float64)
    log_prob = (old + rows([math.log(1.1), 0], [math.log(0.9), 0])).requires_grad_()
    top = -torch.rand(2, 2, 2, dtype=torch.float64)
    top.requires_grad_()
    given = {"entropy": rows([2, 1], [2, 1]), "top_log_prob": top, "K": 2}
    given |= {"drawn_top": torch.ones(2, 2, dtype=torch.bool)}
    settings = {"alpha": 0.25, "lambda_top1": 2.0, "tau": 0.5, **CLIP}
    mask = torch.ones(2, 2, dtype=torch.float64)
    loss, clipped = simko(log_prob, old, rows([2], [-3]), mask, **given, **settings)
    assert_close(loss, [[-2.2, -2.0], [5.4, 3.0]])
    assert not clipped.any()
    slope, spread = torch.autograd.grad(loss.sum(), (log_prob, top))
    assert_close(slope, [[-0.75 * 2.2, -2.0], [5.4, 3.0]])
    assert_close(spread[0], [[-0.125 * 2.2] * 2, [0.0, 0.0]])
    assert not spread[1].any()
    given["drawn_top"] = torch.zeros(2, 2, dtype=torch.bool)
    loss, _ = simko(log_prob, old, rows([2], [-3]), mask, **given, **settings)
    assert_close(loss, [[-2.2, -2.0], [2.7, 3.0]])


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_formula_whatever_the_old_policy_gave_the_likeliest(seed):
    """Token by token with the ratios r_{t,k}, which divide out."""
    log_prob, old, A, mask = batch(seed, spread=0.1)
    given = likeliest(seed, K=3)
    top = given["top_log_prob"].requires_grad_()
    x, settings = log_prob.requires_grad_(), {"alpha": 0.2, "lambda_top1": 1.3, "tau": 0.6}
    old_top = -torch.rand(top.shape, dtype=torch.float64)
    loss, _ = simko(x, old, A, mask, **given, **settings, **CLIP)
    expected = torch.zeros_like(loss)
    for i, t in real_tokens(mask):
        r, a = (x[i, t] - old[i, t]).exp(), A[i, 0]
        entropies = given["entropy"][i, : int(mask[i].sum())]
        if given["entropy"][i, t] > entropies.quantile(0.6):
            each = (top[i, t] - old_top[i, t]).exp()
            if a > 0:
                r = 0.8 * r + 0.2 / 3 * sum((r / k).detach() * k for k in each)
            elif given["drawn_top"][i, t]:
                a = 1.3 * a
        expected[i, t] = -torch.minimum(r * a, r.clamp(0.8, 1.28) * a)
    assert_close(loss * mask, expected)
    ours, theirs = (
        torch.autograd.grad((out * mask).sum(), (x, top), retain_graph=True)
        for out in (loss, expected)
    )
    assert_close(ours[0], theirs[0])
    assert_close(ours[1], theirs[1])
    assert ours[1].any()


def test_its_limits_are_ppo_clip():
    log_prob, old, A, mask = batch(3)
    given, plain = likeliest(3, K=2), ppo_clip(log_prob, old, A, mask, **CLIP)
    one, _ = simko(log_prob, old, A.abs(), mask, **given, **PAPER, **CLIP)
    assert_close(one, ppo_clip(log_prob, old, A.abs(), mask, **CLIP)[0])  # of right ones the value
    off = {"alpha": 0.0, "lambda_top1": 1.0, "tau": 0.0}
    for settings in (off, PAPER | {"tau": 1.0}):
        loss, clipped = simko(log_prob, old, A, mask, **given, **settings, **CLIP)
        assert_close(loss, plain[0])
        assert torch.equal(clipped * mask, plain[1] * mask)


def test_a_right_answer_raises_the_other_likely_tokens_too():
    """One step on logits: GRPO's push on tokens that were not drawn is downward, here less so, and
    a wrong answer that took the likeliest token falls more."""
    z = torch.tensor([1.0, 0.8, 0.6, -1.0], dtype=torch.float64)

    def push(drawn: int, A: float, alpha: float, lambda_top1: float):
        logits = z.clone().requires_grad_()
        log_p = torch.log_softmax(logits, 0)
        sure = torch.zeros(1, 1, dtype=torch.float64)
        log_prob = torch.cat([sure, log_p[drawn].view(1, 1)], 1)
        top = torch.cat([sure[..., None].expand(1, 1, 2), log_p[:2].view(1, 1, 2)], 1)
        loss, _ = simko(
            log_prob,
            log_prob.detach(),
            rows([A]),
            torch.ones(1, 2),
            entropy=rows([0.0, 1.0]),
            top_log_prob=top,
            drawn_top=torch.tensor([[True, drawn == 0]]),
            K=2,
            alpha=alpha,
            lambda_top1=lambda_top1,
            tau=0.8,
            **CLIP,
        )
        return -torch.autograd.grad(loss.sum(), logits)[0]

    plain, spread = push(2, 1.0, 0.0, 1.0), push(2, 1.0, 0.3, 1.0)
    assert_close(spread - plain, 0.3 * rows([0.5, 0.5, -1.0, 0.0])[0])  # onto the likeliest two
    assert_close(push(0, -1.0, 0.3, 1.1), 1.1 * push(0, -1.0, 0.0, 1.0))
    assert_close(push(1, -1.0, 0.3, 1.1), push(1, -1.0, 0.0, 1.0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"alpha": 1.5}, r"method\.loss\.alpha=1\.5: must be in \[0, 1\]"),
        ({"tau": -0.1}, r"method\.loss\.tau=-0\.1: must be in \[0, 1\]"),
        ({"lambda_top1": -1}, r"method\.loss\.lambda_top1=-1: must be at least 0"),
        ({"K": 3}, r"top_log_prob of shape \(12, 9, 2\): give those of method\.loss\.K=3 tokens"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    with pytest.raises(UserError, match=said):
        simko(*batch(0), **{**likeliest(0, K=2), **PAPER, **CLIP, **change})


# ---- the lab

POLICY = torch.tensor([0.4, 0.1, 0.35, 0.15], dtype=torch.float64)
CORRECT = torch.tensor([True, True, False, False])


def step(*words: str) -> torch.Tensor:
    given = theory.compose(["method=simko", "G=5", *words])
    bound, arguments = theory.start(given)
    fixed = {"G": given.G, "reward": given.reward, "arguments": arguments}
    return exact.loss_update(bound, POLICY, CORRECT, **fixed)


def expected_step(alpha: float, lambda_top1: float, K: int, G: int = 5) -> torch.Tensor:
    """The same from all ordered groups, with the gradients of log pi written out."""
    score = torch.eye(4, dtype=torch.float64) - POLICY
    top = POLICY.argsort(descending=True)[:K]
    total = torch.zeros_like(POLICY)
    for actions in itertools.product(range(4), repeat=G):
        drawn = torch.tensor(actions)
        weights = grpo(CORRECT[drawn].double()[None], unbiased=True, epsilon=1e-6)[0]
        for action, A in zip(actions, weights, strict=True):
            pull = score[action]
            if A > 0:
                pull = (1 - alpha) * pull + alpha * score[top].mean(0)
            elif action == top[0]:
                pull = lambda_top1 * pull
            total += POLICY[drawn].prod() * A * pull / G
    return total


def test_the_labs_step_is_exact_and_grpos_at_its_limit():
    off = step("method.loss.alpha=0", "method.loss.lambda_top1=1")
    weights = group_weights(
        bind(theory.compose(["method=grpo", "G=5"]).method),
        all_groups(5),
        theory.compose(["G=5"]).reward,
        {},
    )
    assert_close(off, exact.expected_update(weights, POLICY, CORRECT))
    words = ["method.loss.alpha=0.3", "method.loss.lambda_top1=1.5", "method.loss.K=2"]
    assert_close(step(*words), expected_step(0.3, 1.5, K=2))
    assert_close(step(), expected_step(0.01, 1.1, K=3))


def test_the_command_shows_it_and_refuses_too_few_actions(capsys):
    words = ["method=simko", "G=5", "correct=[0,1]", "json=true"]
    theory.main([*words, "policy=[0.4,0.1,0.35,0.15]"])
    assert json.loads(capsys.readouterr().out)["expected_update"] == step().tolist()
    with pytest.raises(UserError, match=r"policy=\[0.9, 0.1\]: give at least method.loss.K=3 act"):
        theory.main([*words[:2], "correct=[0]", "policy=[0.9,0.1]"])
    with refuses("method.loss.K", "0"):
        theory.compose(["method=simko", "method.loss.K=0"])


def test_the_library_takes_what_the_loss_looks_at():
    data, given = batch(0), likeliest(0, K=3)
    given.pop("K")
    loss, _ = token_loss(*data, "simko", **given)
    assert_close(loss, simko(*data, K=3, **given, **PAPER, eps_low=0.2, eps_high=0.2)[0])
    expected = (loss * data[3]).sum() / data[3].sum()
    assert policy_loss(*data, "simko", **given).item() == pytest.approx(expected.item(), rel=1e-6)
    with refuses("seen", "[]"):
        token_loss(*data, "simko")
    with refuses("seen", "['entropy']"):
        token_loss(*data, "grpo", entropy=given["entropy"])


def test_verl_which_hands_over_less_is_refused():
    from common.backends.verl import config, methods

    methods.require_in_verl("cw_grpo")
    place = config.Place("cpu", 1, 1, None, Path("work"), "model")
    for name in ("grpo", "simko"):
        x = load([f"method={name}"], "f_grpo")
        refused = refuses("method", "simko")
        with refused if name == "simko" else nullcontext():
            config.settings(x, place, 10, 100, {})
    with refuses("method", "simko"):
        methods.require_in_verl("simko")
