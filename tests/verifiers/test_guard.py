"""Canaries, in this process (what fails them is in tests/backends/test_local.py); rewards."""

import json
from functools import partial
from importlib.util import find_spec

import pytest
from code_cases import WHY_NOT
from late import Late

from common.config.resolve import resolve
from common.errors import UserError
from common.tasks import maze
from common.types import Prompt, Verdict
from common.verifiers import maze as rules
from common.verifiers.guard import guarded, seeing
from common.verifiers.ifeval import KNOWN

dynamic, torch = Late("common.backends.dynamic"), Late("torch")
NAMES = ("math", "code", "choice", "ifeval", "countdown")
MATH, CODE, CHOICE, IFEVAL, COUNTDOWN = (f"common.verifiers.{name}.verify" for name in NAMES)
INSTALLED = pytest.mark.skipif(find_spec("lm_eval") is None, reason="needs lm-eval[ifeval]")
TESTS = {"fn_name": None, "test_type": "stdin", "time_limit": 6}
ISOLATED = (pytest.mark.sandbox, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT))
TESTS |= {"tests": [{"input": "1", "output": "2"}]}


@pytest.mark.parametrize(
    ("verifier", "reference"),
    [
        ({"_target_": MATH, "opened": True}, "3"),
        ({"_target_": MATH, "opened": True, "convention": "open_rs"}, "3"),
        ({"_target_": CHOICE, "opened": True}, {"answer": "B", "options": ["1", "2"]}),
        pytest.param({"_target_": IFEVAL, "opened": True}, KNOWN, marks=INSTALLED),
        pytest.param({"_target_": CODE, "strict": True}, TESTS, marks=ISOLATED),
        pytest.param({"_target_": CODE, "opened": True}, TESTS, marks=ISOLATED),
    ],
)
def test_an_example_has_the_closed_thought_without_which_nothing_is_right(verifier, reference):
    text = reference if isinstance(reference, str) else json.dumps(reference)
    text = KNOWN[1] if reference is KNOWN else text
    judge = resolve(verifier, "data.verifier")
    checked = guarded(lambda pairs: [judge(*pair) for pair in pairs], verifier, max_faults=0.1)
    torn = "So B is correct; \\boxed{3}. Hmm"
    said = checked([("", text), (torn, text)])
    assert [verdict.outcome for verdict in said] == ["unparsed"] * 2


def test_a_prompt_that_ends_in_a_thought_opens_it_for_every_verifier_that_can_know():
    opening, other = (Prompt("a", text, "3") for text in ("1+2\n<think>\n", "<think></think>"))
    parts = [{"_target_": MATH, "weight": 1.0}, {"_target_": CODE, "weight": 1.0}]
    for target in (MATH, CHOICE, IFEVAL, CODE, "common.verifiers.format.verify"):
        node = {"_target_": target}
        assert seeing(node, opening) == {**node, "opened": True}
        assert seeing(node, other) == node
        assert seeing(node | {"opened": False}, opening) == node | {"opened": False}
    assert seeing({"_target_": COUNTDOWN}, opening) == {"_target_": COUNTDOWN}
    whole = {"_target_": "common.verifiers.combine.verify", "parts": parts}
    assert seeing(whole, opening)["parts"] == [{**parts[0], "opened": True}, parts[1]]


def test_the_guard_lets_a_single_fault_pass_and_not_two():
    pairs = [("a", "1 2 3 4 = 10"), ("b", "1 2 3 4 = 10")]

    def judge(asked, faults):
        if asked == pairs:
            return [Verdict("error", 0.0)] * faults + [Verdict("wrong", 0.0)] * (2 - faults)
        return [Verdict("correct" if text else "wrong", 0.0) for text, _ in asked]

    node = {"_target_": "common.verifiers.countdown.verify"}
    one, two = (guarded(partial(judge, faults=n), node, max_faults=0.1) for n in (1, 2))
    assert [verdict.outcome for verdict in one(pairs)] == ["error", "wrong"]
    with pytest.raises(UserError, match="2 of 2 verdicts are timeouts or errors"):
        two(pairs)


def test_a_path_that_is_right_in_some_mazes_is_no_fault():
    """Where every path counts, one maze in four accepts another's: here a batch whose first path
    is right in the next five too."""
    given = dict(side=9, loops=4, generator="depth_first", ends="corners")
    mazes = [one.reference for one in maze.mazes(split="train", size=64, seed=0, **given)]
    path = "DDDDRRDDRRRR!"

    def ask(pairs):
        return [rules.verify(*pair, accept="any") for pair in pairs]

    own = [one for one in mazes if rules.example(one) == path][:1]
    others = [one for one in mazes if rules.example(one) != path]
    fits = [verdict.outcome == "correct" for verdict in ask([(path, one) for one in others])]
    right = [one for one, fit in zip(others, fits, strict=True) if fit][:5]
    wrong = [one for one, fit in zip(others, fits, strict=True) if not fit][:10]
    judged = guarded(ask, {"_target_": "common.verifiers.maze.verify"}, max_faults=0.1)
    verdicts = judged([(path, one) for one in (*own, *right, *wrong)])
    assert [verdict.outcome for verdict in verdicts] == ["correct"] * 6 + ["wrong"] * 10


def test_rewards_are_exactly_the_two_values():
    verdicts = [Verdict("correct", 1.0), Verdict("wrong", 0.0), Verdict("unparsed", 0.0)] * 2
    assert torch.equal(
        dynamic.rewards(verdicts, 3, 0.1, -0.6), torch.tensor([[0.1, -0.6, -0.6]] * 2)
    )
