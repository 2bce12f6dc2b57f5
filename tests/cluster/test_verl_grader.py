"""verl's grader of MATH through our verifier."""

import random

import pytest
from labelled import rows
from timing import cpu_seconds

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from verl.utils.reward_score.math_reward import compute_score

from common.verifiers import math
from common.verifiers.verl_math import example, reference, verify

PIECES = r"\frac|\dfrac|\sqrt|\left|\right|\boxed|\boxed{|\boxed |\text{ |\fbox{|\%|\!|\$|\\|^\circ"
PIECES = [*PIECES.split("|"), *"{}123/-=xk. \n%\\$(),", "0.5", "^{\\circ}", "cm"]
BROKEN = ["", r"\frac12", r"\dfrac{1}{2}", r"\sqrt3", r"\left(", *PIECES]


@pytest.mark.parametrize(
    ("response", "gold", "outcome"),
    [
        (r"\boxed{\dfrac12}", r"\frac{1}{2}", "correct"),
        (r"\boxed{1/2}", r"\frac{1}{2}", "correct"),
        (r"\boxed{0.5}", r"\frac{1}{2}", "correct"),
        (r"\boxed{.5}", r"\frac{1}{2}", "correct"),
        (r"\boxed{0.75}", r"\frac{3}{4}", "wrong"),
        (r"\boxed{x = 5}", "5", "correct"),
        (r"\boxed{xyz = 5}", "5", "wrong"),
        (r"\boxed{5 \text{ cm}}", "5", "correct"),
        (r"\boxed{5\text{cm}}", "5", "wrong"),
        (r"\boxed{3250}", "3,250", "wrong"),
        (r"\boxed{2, 1}", "1,2", "wrong"),
        (r"\boxed{\left( 1, 2\right)}", "(1,2)", "correct"),
        (r"\boxed{90^\circ}", "90", "correct"),
        (r"\boxed{\sqrt3}", r"\sqrt{3}", "correct"),
        (r"\boxed{\frac}", r"\frac{1}{2}", "wrong"),
        (r"\boxed{\frac}", r"\frac", "correct"),
        (r"\boxed{}", "7", "wrong"),
        (r"\boxed{1 \text{ h} 5 \text{ min}}", r"1 \text{ h} 5 \text{ min}", "correct"),
        (r"\boxed{1} or \boxed{2}", "2", "correct"),
        (r"\boxed 7$ and more", "7", "correct"),
        (r"\fbox{7}", "7", "unparsed"),
        (r"\boxed{7", "7", "unparsed"),
        ("The answer is 7", "7", "unparsed"),
    ],
)
def test_by_hand(response, gold, outcome):
    verdict = verify(response, reference({"answer": gold}))
    assert (verdict.outcome, verdict.reward) == (outcome, float(outcome == "correct"))
    assert (verdict.parsed is None) == (outcome == "unparsed")


def test_answers_that_count_as_the_same_are_parsed_to_the_same_text():
    texts = (r"\boxed{\tfrac 3 4}", r"\boxed{3/4}", r"\boxed{k=\frac34}")
    assert {verify(text, reference({"answer": "1"})).parsed for text in texts} == {r"\frac{3}{4}"}


@pytest.mark.parametrize("piece", PIECES)
def test_time_grows_with_the_length_alone(piece):
    long = piece * (200_000 // len(piece))
    seconds, verdict = cpu_seconds(verify, rf"\boxed{{{long}}}", reference({"answer": "3"}))
    assert seconds < 1
    assert len(verdict.parsed or "") <= 200


def test_real_outputs():
    """What strings lose of the right ones: numbers with separators, all of three problems."""
    cases = [row for row in rows("verifier_cases") if row["source"].startswith("qwen2.5-math_math")]
    pairs = [(row, math.response(row), reference(row)) for row in cases if row["correct"]]
    lost = {r["gold"] for r, text, gold in pairs if not verify(text, gold).reward}
    assert lost == {"900,000,000", "3,250", "50,625"}
    assert all(verify(example(gold), gold).outcome == "correct" for _, _, gold in pairs)


def test_rewards_are_verls():
    draw, right = random.Random(0), 0
    for _ in range(2_000):
        gold = "".join(draw.choices(BROKEN, k=draw.randint(1, 4)))
        at = draw.randint(0, len(gold))
        answer = gold[:at] + draw.choice(BROKEN) + gold[at:]
        response = draw.choice([r"\boxed{%s}.", r"\boxed %s$ x", "%s"]) % answer
        if gold.strip():
            theirs = compute_score(response, gold)
            assert verify(response, reference({"answer": gold})).reward == theirs, (response, gold)
            right += theirs
    assert right > 100
