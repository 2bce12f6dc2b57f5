"""The reward of other trainers: any thread, a deadline a response, outcomes beside the zeros."""

import asyncio
import sys
import threading

import pytest
from refuses import refuses
from tiny import ROOT

from common.errors import UserError
from common.verifiers import trainers
from rlvr_papers import trl_reward

pytestmark = pytest.mark.process

GOLD, RIGHT, WRONG = "1 2 3 4 = 10", r"\boxed{1+2+3+4}", r"\boxed{1+2+3-4}"
LIMITS = {"workers": 2, "deadline": 1.0, "memory_gb": 1.0, "max_faults": 0.9}


@pytest.fixture(autouse=True)
def own_pools(monkeypatch):
    """Verifiers of tests/support, and pools that end with the test."""
    monkeypatch.setattr("sys.path", [str(ROOT / "tests" / "support"), *sys.path])
    opened, pool = [], trainers.guard._pool

    def kept(*given):
        opened.append(pool(*given))
        return opened[-1]

    monkeypatch.setattr(trainers.guard, "_pool", kept)
    trainers._verify.cache_clear()
    trainers._batcher.cache_clear()
    yield
    for one in opened:
        one.close()


def in_a_thread(function):
    """What it returns in a thread that is not the main one, where no signal handler may be set."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_trl_gets_numbers_and_its_log_the_outcomes():
    logged = {}
    reward = trl_reward("broken_verifiers.says", reference="gold", **LIMITS)
    columns = {"gold": [GOLD] * 5, "log_metric": logged.__setitem__, "prompts": [""] * 5}
    chat = [{"role": "assistant", "content": RIGHT}]
    found = in_a_thread(
        lambda: reward(completions=[RIGHT, chat, WRONG, "hang", "raise"], **columns)
    )
    assert found == [1, 1, 0, 0, 0]
    outcomes = [verdict.outcome for verdict in reward.verdicts]
    assert outcomes == ["correct", "correct", "wrong", "timeout", "error"]
    assert logged["outcome/correct"] == 0.4
    assert logged["outcome/timeout"] == logged["outcome/error"] == 0.2
    assert logged["outcome/unparsed"] == 0
    assert reward.__name__ == "broken_verifiers"


def test_verl_gets_a_score_with_its_outcome():
    responses = [RIGHT, WRONG, "hang", "raise", ""]

    async def judged():
        given = {"ground_truth": GOLD, "verifier": "broken_verifiers.says", **LIMITS}
        jobs = [trainers.verl_reward("set", text, extra_info={}, **given) for text in responses]
        return await asyncio.gather(*jobs)

    found = in_a_thread(lambda: asyncio.run(judged()))
    assert [one["score"] for one in found] == [1, 0, 0, 0, 0]
    outcomes = ["correct", "wrong", "timeout", "error", "unparsed"]
    assert [one["outcome"] for one in found] == outcomes
    assert [one["acc"] for one in found] == [1, 0, 0, 0, 0]
    assert [one["timeout"] for one in found] == [0, 0, 1, 0, 0]
    assert len({tuple(one) for one in found}) == 1  # one table


@pytest.mark.parametrize("verifier", ["always", "never", "hangs"])
def test_a_verifier_that_cannot_be_trusted_is_no_row_of_zeros(verifier):
    named = f"broken_verifiers.{verifier}"
    reward = trl_reward(named, **LIMITS)
    with pytest.raises(UserError, match=named):
        reward(completions=["1", "2", "3"], answer=[GOLD] * 3)


def test_limits_are_checked():
    with refuses("verification.deadline", "0"):
        trl_reward("broken_verifiers.says", deadline=0)
