"""The library: its names, its defaults, and what it says of bad input."""

import ast
import subprocess
import sys

import pytest
import torch
from tiny import ROOT

import rlvr_papers
from common import api
from common.errors import UserError
from common.experiment import load
from common.methods import binding

MASK = torch.ones(4, 3)


def loss_tensors() -> dict:
    torch.manual_seed(0)
    log_prob = torch.randn(4, 3)
    given = dict(log_prob=log_prob.requires_grad_(), old_log_prob=log_prob.detach(), mask=MASK)
    return given | dict(advantages=torch.tensor([1.0, -1.0, -1.0, 1.0]))


def loss(**changes):
    return api.policy_loss(**(loss_tensors() | changes))


def test_the_package_has_the_names_and_loads_torch_only_for_them():
    for name in api.__all__:
        assert getattr(rlvr_papers, name) is getattr(api, name)
    assert set(api.__all__) <= set(dir(rlvr_papers))
    with pytest.raises(ImportError, match="nothing"):
        from rlvr_papers import nothing  # noqa: F401
    program = "import sys, rlvr_papers.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_every_public_function_has_types_and_a_docstring():
    for node in ast.parse((ROOT / "common" / "api.py").read_text()).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert node.name in api.__all__
            assert ast.get_docstring(node)
            arguments = [*node.args.args, *node.args.kwonlyargs]
            assert node.returns is not None
            assert all(argument.annotation for argument in arguments), node.name


def test_advantages_are_those_of_training():
    rewards = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0]])
    method = load(["method=f_grpo"], "f_grpo").method
    expected = api.group_advantages(rewards, method)
    torch.testing.assert_close(api.group_advantages(rewards, "f_grpo"), expected)
    for same in (rewards.tolist(), rewards.int(), rewards.bool()):
        torch.testing.assert_close(api.group_advantages(same, "f_grpo"), expected)
    weaker = api.group_advantages(rewards, "f_grpo", gamma=1.0)
    assert weaker[0, 0] < expected[0, 0]


@pytest.mark.parametrize("name", api.method_names())
def test_every_method_weighs_and_has_a_loss(name):
    rewards = [[1, 0, 0, 1, 0, 1, 0, 0]]
    assert api.group_advantages(rewards, name, max_tokens=8).shape == (1, 8)
    bound = binding.bind(api.load_method(name, max_tokens=8))
    seen = binding.made_up_tokens(bound, loss_tensors()["log_prob"])
    value = loss(method=name, max_tokens=8, **seen)
    assert value.isfinite()
    value.backward()


def test_the_loss_of_equal_policies_is_the_policy_gradient():
    """Token mean of -A: the advantages sum to 0."""
    assert loss().item() == pytest.approx(0, abs=1e-6)
    per_token = loss(advantages=torch.arange(4.0)[:, None])
    assert per_token.item() == pytest.approx(-1.5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: api.group_advantages([1, 0]), r"rewards=shape \(2,\): give \(prompts, resp"),
        (lambda: api.group_advantages([[1, float("nan")]]), "rewards=nan or inf"),
        (lambda: api.group_advantages([[1, 0]], "gpro"), "method=gpro: did you mean grpo"),
        (lambda: api.group_advantages([[1, 0]], gamma=1), "gamma=1: unknown argument"),
        (lambda: api.group_advantages([[1, 0]], lengths=[1, 2]), r"lengths=shape \(2,\)"),
        (lambda: loss(method="dr_grpo"), "max_tokens"),
        (lambda: loss(mask=MASK * 0), "mask=all 0"),
        (lambda: loss(mask=MASK[:2]), r"mask=shape \(2, 3\): must be that of log_prob"),
        (lambda: loss(advantages=torch.ones(3)), r"advantages=shape \(3,\): give \(4,\)"),
        (lambda: api.verify("a", "b", "nope.py:f"), "nope.py:f: cannot be imported"),
        (lambda: api.verify("a", ""), "gold"),
        (lambda: api.verify("a", "b", convention="x"), "convention=x: use one of"),
    ],
)
def test_bad_input_is_said_in_a_line(call, said):
    with pytest.raises(UserError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_one_verdict_here():
    assert api.verify(r"so \boxed{1/2}", "0.5").outcome == "correct"
    assert api.verify("so 3", "0.5", convention="exact").outcome in ("wrong", "unparsed")


@pytest.mark.process
def test_many_verdicts_in_workers():
    pairs = [(r"\boxed{2}", "2"), (r"\boxed{3}", "2")]
    outcomes = [verdict.outcome for verdict in api.verify_all(pairs)]
    assert outcomes == ["correct", "wrong"]
