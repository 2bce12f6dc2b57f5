import pytest

from common.types import Verdict
from common.verifiers import combine, format
from common.verifiers.format import verify

CHOICE = {"_target_": "common.verifiers.choice.verify", "weight": 1.0}
FORMAT = {"_target_": "common.verifiers.format.verify", "weight": 0.5}
GOLD = '{"answer": "B", "options": ["1", "2"]}'


@pytest.mark.parametrize(
    ("response", "matched", "opened", "open_rs"),
    [
        # right under: the paper's words; the same, the prompt ending in <think>; Open-RS's code
        ("<think>\nthought\n</think>\nanswer", True, True, True),
        ("<think>thought</think>answer", True, True, False),
        ("\n <think>\n\n</think>\n<answer>4</answer>", True, True, True),
        ("Well. <think>thought</think> answer", True, False, False),
        ("thought\n</think>\nanswer", False, True, True),
        ("thought</think>answer", False, True, False),
        ("<think>thought</think>", False, False, False),
        ("<think>\nthought\n</think>\n", False, False, True),
        ("<think>thought", False, False, False),
        ("answer", False, False, False),
        ("", False, False, False),
        ("</think>\n<think>\nanswer", False, False, False),
        ("<think>a</think><think>b</think> answer", False, False, False),
        ("<think><think>a</think></think> answer", False, False, False),
        ("<think>a <think> b\n</think>\n answer", False, False, True),
        ("\n</think>\n\n</think>\n", False, False, False),
        ("< think>a</ think> answer", False, False, False),
        ("<think>\ud800\0</think>\ud800", True, True, False),
    ],
)
def test_tags(response, matched, opened, open_rs):
    for options, right in (
        ({}, matched),
        ({"opened": True}, opened),
        ({"convention": "open_rs"}, open_rs),
    ):
        verdict = verify(response, "", **options)
        assert verdict.outcome == ("correct" if right else "wrong"), options
        assert verdict.reward == right
        assert bool(verdict.reason) != right


def test_the_example_is_correct_and_any_length_is_taken():
    made = format.example("")
    for options in ({}, {"opened": True}, {"convention": "open_rs"}):
        assert verify(made, "", **options).outcome == "correct"
    assert verify("<think>" * 100_000, "").outcome == "wrong"


@pytest.mark.parametrize(
    ("response", "outcome", "reward"),
    [
        ("<think>x</think>\\boxed{B}", "correct", 1.5),
        ("\\boxed{B}", "correct", 1.0),
        ("<think>x</think>\\boxed{A}", "wrong", 0.5),
        ("\\boxed{A}", "wrong", 0.0),
        ("<think>x</think>no", "unparsed", 0.5),
        ("", "unparsed", 0.0),
    ],
)
def test_a_sum_has_the_first_verdict_and_the_weighted_rewards(response, outcome, reward):
    verdict = combine.verify(response, GOLD, parts=[CHOICE, FORMAT])
    assert (verdict.outcome, verdict.reward) == (outcome, reward)
    assert verdict.parsed == (response[-2] if "boxed" in response else None)
    swapped = combine.verify(response, GOLD, parts=[FORMAT, CHOICE])
    assert swapped.reward == reward
    assert swapped.outcome == ("correct" if "think" in response else "wrong")


def test_the_options_of_a_part_reach_it():
    parts = [CHOICE | {"convention": "mmlu_pro", "weight": 2}, FORMAT | {"opened": True}]
    assert combine.verify("x</think>\\boxed{B}", GOLD, parts=parts).reward == 0.5
    assert combine.verify("x</think>the answer is B", GOLD, parts=parts).reward == 2.5


def test_a_part_that_fails_leaves_no_reward(monkeypatch):
    monkeypatch.setattr(format, "verify", lambda r, g: Verdict("error", 0.0, reason="x" * 999))
    combine._bound.cache_clear()
    verdict = combine.verify("\\boxed{B}", GOLD, parts=[CHOICE, FORMAT])
    combine._bound.cache_clear()
    assert (verdict.outcome, verdict.reward, verdict.parsed) == ("error", 0.0, None)
    assert len(verdict.reason) == 300
