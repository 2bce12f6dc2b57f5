"""Canaries, in this process: what a verifier must say of pairs whose verdicts are known."""

import broken_verifiers
import pytest

from common.errors import UserError
from common.tasks import countdown, maze
from common.verifiers import maze as rules
from common.verifiers.guard import guarded


@pytest.fixture(scope="module")
def pairs():
    """Empty responses to eight prompts of the testbed."""
    prompts = countdown.natural(split="test", size=8, seed=0, template="bare")
    return [("", prompt.reference) for prompt in prompts]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("never", "calls a right answer wrong"),
        ("always", "calls an empty response correct"),
        ("any_answer", "calls one answer correct for 8 different prompts"),
    ],
)
def test_a_verifier_that_fails_a_canary_is_not_asked(pairs, function, message):
    verify = lambda asked: [getattr(broken_verifiers, function)(*pair) for pair in asked]  # noqa: E731
    checked = guarded(verify, {"_target_": f"broken_verifiers.{function}"}, max_faults=0.1)
    with pytest.raises(UserError, match=message):
        checked(pairs)


def test_a_path_that_is_right_in_some_mazes_is_no_fault():
    """Of mazes whose every path counts, one in four accepts another's: here the first of a batch is
    right in the next five too."""
    given = dict(side=9, loops=4, generator="depth_first", ends="corners")
    mazes = [one.reference for one in maze.mazes(split="train", size=256, seed=0, **given)]
    first = mazes[0]
    path = rules.example(first)
    others = [one for one in mazes if rules.example(one) != path]
    fits = [rules.verify(path, one, accept="any").outcome == "correct" for one in others]
    batch = [one for one, fit in zip(others, fits, strict=True) if fit][:5]
    batch += [one for one, fit in zip(others, fits, strict=True) if not fit][:10]
    assert len(batch) == 15
    node = {"_target_": "common.verifiers.maze.verify", "accept": "any"}
    judged = guarded(
        lambda asked: [rules.verify(*pair, accept="any") for pair in asked], node, max_faults=0.1
    )
    verdicts = judged([(path, one) for one in [first, *batch]])
    assert [verdict.outcome for verdict in verdicts] == ["correct"] * 6 + ["wrong"] * 10
