"""Which references verl grades, by a module in verl's place; tests/cluster/test_verl_grader.py has
verl's own."""

from importlib.util import spec_from_file_location

import pytest
from refuses import refuses

from common.verifiers import math, verl_math
from common.verifiers.verl_math import example, reference, verify

STAND_IN = """
def last_boxed_only_string(text):
    return text if "box" in text else None

def remove_boxed(text):
    assert text[:4] == "box "
    return text[4:]

def is_equiv(answer, gold):
    return answer.lower() == gold

def strip_string(text):
    assert "!" not in text
    return text.lower()
"""


@pytest.fixture(autouse=True)
def no_verl(monkeypatch):
    monkeypatch.setattr(verl_math, "find_spec", lambda name: None)
    verl_math._verl.cache_clear()
    yield
    verl_math._verl.cache_clear()


@pytest.fixture
def verl(tmp_path, monkeypatch):
    scores = tmp_path / "verl" / "utils" / "reward_score"
    scores.mkdir(parents=True)
    (scores / "math_reward.py").write_text(STAND_IN)
    spec = spec_from_file_location("verl", tmp_path / "verl" / "__init__.py")
    monkeypatch.setattr(verl_math, "find_spec", {"verl": spec}.get)


@pytest.mark.parametrize(
    ("response", "outcome", "parsed"),
    [
        ("box A", "correct", "a"),
        ("box B", "wrong", "b"),
        ("box B!", "wrong", "B!"),
        ("box " + "B" * 300, "wrong", "b" * 200),
        ("fbox A", "unparsed", None),
        ("A", "unparsed", None),
    ],
)
def test_verl_judges_the_text_in_the_box(verl, response, outcome, parsed):
    verdict = verify(response, reference({"answer": "a"}))
    assert (verdict.outcome, verdict.parsed) == (outcome, parsed)
    assert verdict.reward == float(outcome == "correct")


def test_without_verl_the_reference_is_refused_before_any_response():
    for asked in (lambda: reference({"answer": "5"}), lambda: verify("5", '{"verl_math": "5"}')):
        with refuses("verifier", "verl_math") as caught:
            asked()
        assert "make setup-cluster" in str(caught.value)


def test_other_references_are_the_math_verifiers(verl):
    for response, gold in ((r"\boxed{0.75}", r"\frac{3}{4}"), ("The answer is 4", "5"), ("?", "5")):
        plain = math.reference({"answer": gold})
        assert verify(response, plain) == math.verify(response, plain)
        assert verify(response, reference({"answer": gold})).outcome != "correct"
    assert verify(example("7"), "7").outcome == "correct"
    assert example(reference({"answer": "7"})) == math.example("7")
