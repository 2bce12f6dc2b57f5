import json
from itertools import product

import pytest
from code_cases import isolated
from refuses import refuses

from common.tasks import countdown, expressions
from common.tasks.expressions import CLOSING, HIDDEN, OPENING, SHOWN, A, B, C
from common.verifiers.code import verifier
from common.verifiers.countdown import parse

pytestmark = pytest.mark.sandbox

EVERY = [f for f in product(A, B, C) if any(f[:2])]


def prompts(split: str, size: int, seed: int = 0):
    return expressions.functions(split=split, size=size, seed=seed, template="bare")


def value(expression: str, x: int) -> int:
    """Of an expression of the demonstrator, by Countdown's parser; never by Python."""
    return countdown.value_of(parse(expression.replace("x", str(x))))


def test_every_way_to_write_a_function_is_right():
    inputs = SHOWN + HIDDEN
    for a, b, c in EVERY:
        for way in expressions.WAYS:
            text = expressions.write((a, b, c), way)
            assert [value(text, x) for x in inputs] == [a * x * x + b * x + c for x in inputs], text
    ways = [expressions.write((2, 1, 5), way) for way in ("falling", "rising", "nested")]
    assert ways == ["2*x*x+x+5", "5+x+2*x*x", "x*(2*x+1)+5"]
    assert expressions.write((0, 3, 0), "nested") == "3*x"


def test_shown_values_determine_the_function():
    assert len({expressions.bare(f) for f in EVERY}) == len(EVERY) == 510


def test_splits_share_nothing():
    sizes = {"train": 350, "dev": 40, "test": 40}
    ids = {split: {p.id for p in prompts(split, size)} for split, size in sizes.items()}
    assert {split: len(drawn) for split, drawn in ids.items()} == sizes
    assert not ids["train"] & ids["test"]
    assert not ids["train"] & ids["dev"]
    assert not ids["dev"] & ids["test"]
    shown = {prompt for prompt, _ in expressions.demonstrations(count=10_000, seed=0)}
    assert not shown & (ids["test"] | ids["dev"])
    assert len(shown & ids["train"]) > 340
    assert prompts("test", 40) == prompts("test", 40)
    assert prompts("test", 40, seed=1) != prompts("test", 40)


def test_a_prompt_and_its_tests_by_hand():
    prompt = expressions._prompt((2, 3, 1))
    assert prompt.text == "1=6 10=231"
    held = json.loads(prompt.reference)
    assert [(t["input"], t["output"]) for t in held["tests"]] == [
        ("1", "6"), ("10", "231"), ("3", "28"),
    ]  # fmt: skip
    assert (held["test_type"], held["fn_name"]) == ("functional", "f")


def test_demonstrations_hold_only_words_of_the_tokenizer():
    longest = 0
    for prompt, response in expressions.demonstrations(count=500, seed=1):
        assert response.startswith(OPENING)
        assert response.endswith(CLOSING)
        words = response[len(OPENING) : -len(CLOSING)]
        for sign in "+*()0123456789":
            words = words.replace(sign, f" {sign} ")
        assert set(words.split()) <= set(expressions.WORDS)
        assert set(prompt) <= {*expressions.WORDS, " "}
        longest = max(longest, len(words.split()) + 3)  # opening, closing, end
    assert longest <= 20  # sampling.max_tokens


@pytest.mark.parametrize(
    ("key", "value"), [("split", "validation"), ("size", 1_000), ("template", "other")]
)
def test_bad_arguments_are_named(key, value):
    given = {"split": "test", "size": 5, "seed": 0, "template": "bare"} | {key: value}
    with refuses(key, value):
        expressions.functions(**given)


@isolated
def test_the_real_verifier_judges_programs():
    reference = expressions._prompt((2, 3, 1)).reference
    outcome = lambda body: verifier.verify(f"{OPENING}{body}{CLOSING}", reference)  # noqa: E731
    assert outcome("x*(2*x+3)+1").outcome == "correct"
    assert outcome("(x+1)*(x+x+1)").reward == 1.0
    wrong = outcome("3*x+2*x+1")
    assert (wrong.outcome, wrong.reward) == ("wrong", 0.0)
    assert "test 2 of 3" in wrong.reason
    learnt = outcome("{1: 6, 10: 231}[x]")  # knows the examples by heart
    assert learnt.outcome == "wrong"
    assert "test 3 of 3" in learnt.reason
    assert outcome("3*x+").outcome == "wrong"  # no program
    assert verifier.verify("3*x+2", reference).outcome == "unparsed"
