"""Canaries, in this process: what a verifier must say of pairs whose verdicts are known."""

import broken_verifiers
import pytest

from common.errors import UserError
from common.tasks import countdown
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
        ("any_answer", "calls one answer correct for 5 different prompts"),
    ],
)
def test_a_verifier_that_fails_a_canary_is_not_asked(pairs, function, message):
    verify = lambda asked: [getattr(broken_verifiers, function)(*pair) for pair in asked]  # noqa: E731
    checked = guarded(verify, {"_target_": f"broken_verifiers.{function}"}, max_faults=0.1)
    with pytest.raises(UserError, match=message):
        checked(pairs)
