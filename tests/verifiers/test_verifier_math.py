import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from math_cases import HOSTILE, outcome
from timing import cpu_seconds
from tiny import ROOT

from common.verifiers.math import verifier
from common.verifiers.math.verifier import reference, response, verify


def table(name: str) -> list[dict]:
    """A row is a case: its gold, a text in which "¶" is a line break, and the outcome."""
    with open(Path(__file__).with_name(f"math_{name}.csv"), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["answers", "responses"])
def test_cases_by_hand(name):
    """answers: what the box holds; responses: all of the text, most of them without a box."""
    frame = "\\boxed{%s}" if name == "answers" else "%s"
    misjudged = []
    for case in table(name):
        got = outcome(frame.replace("%s", case["text"]).replace("¶", "\n"), case["gold"])
        if got != case["outcome"]:
            misjudged.append((case, got))
    assert misjudged == []


@pytest.mark.parametrize(
    "end", ["5", " 5", "5\n", " 5 ", "5.", " $5", "5 apples", "5.0", "05", "+5"]
)
def test_the_answer_of_a_worked_solution_as_reference(end):
    gold = f"2 + 3 = <<2+3=5>>5\n####{end}"
    assert outcome("#### 5", gold) == outcome("\\boxed{5}", gold) == "correct"
    assert outcome("#### 2", gold) == outcome("\\boxed{3}", gold) == "wrong"
    assert outcome(verifier.example(gold), gold) == "correct"


def test_reward_parsed_and_reason():
    verdict = verify("\\boxed{0.5}", "\\frac12")
    assert (verdict.outcome, verdict.reward, verdict.parsed) == ("correct", 1.0, "1/2")
    # answers counted as the same have the same text, right or wrong
    assert verify("\\boxed{x=\\tfrac{2}{4}}", "7").parsed == verify("\\boxed{0.5}", "7").parsed
    assert verify("\\boxed{2, 1}", "7").parsed == verify("\\boxed{\\{1,2\\}}", "7").parsed
    assert verify("\\boxed{(2, 1)}", "7").parsed != verify("\\boxed{(1, 2)}", "7").parsed
    long = verify("\\boxed{" + "1+" * 40 + "\\sqrt{2}" * 40 + "}", "7")
    assert long.reward == 0.0
    assert len(long.parsed or "") <= 200
    assert len(long.reason) <= 300


def test_no_answer_is_unparsed():
    for text in ("", "I do not know", "so $\\boxed{12", "\x00" * 9, "\\boxed{\ud800}", "<think>"):
        assert outcome(text, "12") == "unparsed", text
    # an answer that breaks off in its box is none, whatever was said before
    assert outcome("It is \\boxed{12}. So the answer is $12 = \\boxed{1", "12") == "unparsed"


@pytest.mark.parametrize(
    ("text", "ours", "open_rs"),
    [
        # the verdict on a response; of Open-RS's accuracy reward, LaTeX alone
        ("so 4\n</think>\n\\boxed{4}", "correct", "correct"),
        ("so\n</think>\nThe final answer is $4$.", "correct", "correct"),
        ("so\n</think>\n4", "correct", "unparsed"),
        ("so\n</think>\nThe answer is 4", "correct", "unparsed"),
        ("so\n</think>\nIt comes to $4$ then", "correct", "unparsed"),
        ("so\n</think>\n\\boxed{5}", "wrong", "wrong"),
        ("it could be 4", "unparsed", "unparsed"),
        ("it could be \\boxed{4}", "unparsed", "unparsed"),
        ("<think>\nit could be \\boxed{4}", "unparsed", "unparsed"),
        ("", "unparsed", "unparsed"),
    ],
)
def test_a_thought_that_the_prompt_opened_must_be_closed(text, ours, open_rs):
    assert outcome(text, "4", opened=True) == ours
    assert outcome(text, "4", convention="open_rs", opened=True) == open_rs
    for convention in verifier.CONVENTIONS:
        if "</think>" not in text:
            assert outcome(text, "4", convention=convention, opened=True) == "unparsed"


def test_conventions():
    text = "We get $\\boxed{\\frac{1}{2}}$, about 0.5 of 7."
    got = {name: outcome(text, "0.5", convention=name) for name in verifier.CONVENTIONS}
    assert got["ours"] == got["boxed"] == "correct"
    assert got["last_number"] == "wrong"
    assert outcome(text, "7", convention="last_number") == "correct"
    assert outcome("The answer is 7", "7", convention="boxed") == "unparsed"
    # math-verify as is drops the letter, and merges two boxes
    assert outcome("$4t$", "4", convention="math_verify") == "correct"
    assert outcome("$\\boxed{1} \\boxed{2}$", "2", convention="math_verify") == "wrong"


def test_reference_keeps_what_matters():
    assert reference({"id": 1, "answer": "025"}) == "025"
    assert reference({"id": 1, "gold": "3", "answer": "4"}) == "3"
    assert reference({"id": 1, "answer": 27.0}) == "27.0"
    row = {"id": 1, "answer": "4.2", "error": "1e-1", "unit": "%"}
    assert outcome("\\boxed{4.25\\%}", reference(row)) == "correct"
    assert outcome("\\boxed{4.35}", reference(row)) == "wrong"
    assert json.loads(reference(row)) == {"gold": "4.2", "tolerance": "1e-1", "unit": "%"}
    speed = reference({"id": 1, "answer": "$\\frac{600}{7}$", "unit": "km/h"})
    assert outcome("\\boxed{\\frac{600}{7} km/h}", speed) == "correct"
    solution = reference({"id": 1, "answer": "words " * 1000 + "\\boxed{7}"})
    assert outcome("\\boxed{7}", solution) == "correct"
    several = reference({"id": 1, "answer": "5", "final_answer": ["5", "1"]})
    assert outcome("\\boxed{1, 5}", several) == "correct"
    assert outcome("\\boxed{5}", several) == "wrong"


def test_a_bare_answer_is_put_in_a_box():
    row = {"kind": "answer_pair", "response": "a = 1} and b = 2"}
    assert response(row) == "\\boxed{a = 1 and b = 2}"
    assert response({"kind": "generation", "response": "#### 5"}) == "#### 5"


def test_units_are_dropped_only_by_the_option():
    for unit, other in (("km", "m"), ("hours", "minutes")):
        text = f"\\boxed{{6 \\text{{ {other}}}}}"
        assert outcome(text, f"6\\text{{ {unit}}}") == "wrong"
        assert outcome(text, f"6\\text{{ {unit}}}", drop_units=True) == "correct"
        assert outcome(text, "6") == "correct"


def test_identical_pairs_are_judged_once():
    verifier._judged.cache_clear()
    for at in range(256):
        verify(f"attempt {at}: \\boxed{{{at % 4}\\sqrt{{2}}}}", "\\sqrt{8}")
    assert verifier._judged.cache_info().misses == 4


# ---- hostile answers


@pytest.mark.process
def test_no_hostile_answer_is_correct():
    """In a process of their own, four of each kind: none takes a second, or much memory."""
    count = 4 * len(HOSTILE)
    code = "import sys; sys.path.append('tests/support'); from math_cases import judge_hostile"
    code += f"; judge_hostile({count})"
    child = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, timeout=300, capture_output=True
    )
    said = json.loads(child.stdout)
    assert said.pop("MB") < 600
    assert sum(said["outcomes"].values()) == count
    assert said["outcomes"].keys() <= {"unparsed", "wrong"}  # a number is no tuple, read or not
    assert said["slow"] == 0


def test_no_pattern_backtracks_without_end():
    texts = ["5 " + "days " * 180 + "1", "\\alpha" * 90 + "+1=5", "$" * 10**6, "\\(" * 10**5]
    texts += ["\\boxed{" * 10**5, "\\boxed{1} " * 10**5, "answer is " * 10**5, "1," * 450]
    start = time.process_time()
    for text in [*texts, "1/" * 400]:
        for frame in ("%s", "\\boxed{%s}"):
            verify(frame.replace("%s", text), "7")
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    "text",
    [
        "\\int_0^1\\int_0^1 \\frac{1}{1-xy}\\,dx\\,dy",
        "\\int_0^1 \\frac{\\cos(x^3)}{\\sqrt{2+x^5}}dx",
        "\\sum_{k=1}^\\infty \\frac{\\sin k}{k^2+1}",
        "\\sum_{j=1}^\\infty\\sum_{k=1}^\\infty\\frac{1}{j^3+k^3}",
        "\\gcd(2^{9^9}, 3)",
        "|x" * 400 + "<2",
        "\\binom{4000000}{1000000}",
        "\\int_0^1 x dx\\sin x3.5R3.5++" * 6,
        ",".join(f"x^{{{power}}}" for power in range(2, 82)),
    ],
)
def test_what_may_take_long_is_refused(text):
    seconds, got = cpu_seconds(outcome, f"\\boxed{{{text}}}", "\\sqrt{2}+1")
    assert got == "unparsed"
    assert seconds < 3
