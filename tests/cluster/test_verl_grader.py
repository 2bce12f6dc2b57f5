import random

import pytest
from timing import cpu_seconds

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from verl.utils.reward_score.math_reward import compute_score

from common.verifiers.verl_math import reference, verify

PIECES = r"\frac|\dfrac|\sqrt|\left|\right|\boxed|\boxed{|\boxed |\text{ |\fbox{|\%|\!|\$|\\|^\circ"
PIECES = [*PIECES.split("|"), *"{}123/-=xk. \n%\\$(),", "0.5", "^{\\circ}", "cm"]
BROKEN = ["", r"\frac12", r"\dfrac{1}{2}", r"\sqrt3", r"\left(", *PIECES]


def test_answers_that_count_as_the_same_are_parsed_to_the_same_text():
    texts = (r"\boxed{\tfrac 3 4}", r"\boxed{3/4}", r"\boxed{k=\frac34}")
    assert {verify(text, reference({"answer": "1"})).parsed for text in texts} == {r"\frac{3}{4}"}


@pytest.mark.parametrize("piece", PIECES)
def test_time_grows_with_the_length_alone(piece):
    long = piece * (200_000 // len(piece))
    seconds, verdict = cpu_seconds(verify, rf"\boxed{{{long}}}", reference({"answer": "3"}))
    assert seconds < 1
    assert len(verdict.parsed or "") <= 200


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
