"""The math verifier: pairs and responses by hand, conventions, and what it refuses."""

import json
import subprocess
import sys
import time

import pytest
from math_cases import HOSTILE, outcome
from tiny import ROOT

from common.verifiers.math import verifier
from common.verifiers.math.verifier import reference, response, verify

# gold -> (right answers, wrong answers)
PAIRS = {
    "4": ([], ["4t", "4\\sqrt{2}"]),
    "3": ([], ["3d", "3 or 5", "\\{3,5\\}", "5 \\text{ or } 3", "3 \\text{ not } 5", "3=5"]),
    "3R^2": ([], ["3r^2"]),
    "204_5": (["204_{5}"], ["204", "204_6"]),
    "1+\\frac{1}{\\mathrm{e}}": ([], ["1-\\frac{1}{\\mathrm{e}}"]),
    "1-\\frac{1}{\\mathrm{e}}": (["1-e^{-1}"], []),
    "\\frac{1}{2^{99}}": (["2^{-99}"], ["\\frac{1}{2^{98}}"]),
    "(1,2)": ([], ["\\{1,2\\}", "(2,1)", "[1,2]"]),
    "\\{1,2\\}": ([], ["(1,2)"]),
    "1,2": (["\\{2,1\\}", "2,1"], []),
    "5": (["3=5", "$5$", "\\text{5}", "5\\text{ cm}", "5\\,\\mathrm{cm}^2", "x=5"], []),
    "7": (["7.", "+7"], []),
    "73": (["**73**"], []),
    "\\frac13": (["0.333333"], ["0.3333"]),
    "1450000": (["1{,}450{,}000", "1\\,450\\,000"], []),
    "90": (["90^\\circ", "90°"], []),
    "50\\%": (["50", "0.5"], []),
    "0.5": (["50\\%"], ["50", "\\frac{51}{100}"]),
    "50": ([], ["0.5"]),
    "025": (["25"], []),
    "4.5e33": (["4.5 \\times 10^{33}"], ["4.6\\times 10^{33}"]),
    "np.arcsin(10/13)": (
        ["\\arcsin(10/13)", "\\sin^{-1}\\left(\\frac{10}{13}\\right)", "0.877636"],
        [],
    ),
    "-1./3": (["-\\frac{1}{3}"], []),
    "1e-5": (["10^{-5}"], []),
    "12:00": ([], ["1:00"]),
    "9:24": (["9:24 \\text{ AM}"], []),
    "1:03 PM": (["13:03"], []),
    "2+3i": (["3i+2"], []),
    "i(2-i)": (["1+2i"], []),
    "2^{100}": ([], ["2^{100}+1"]),
    "|x|": ([], ["x"]),
    "\\sqrt{x^2}": ([], ["x"]),
    "(x+1)^2": (["x^2+2x+1"], []),
    "\\frac{\\sqrt{2}}{2}": (["\\frac{1}{\\sqrt2}", "0.707107"], ["0.707"]),
    "1\\frac12": (["1.5"], []),
    "-1\\frac12": (["-1.5"], []),
    "11/2": ([], ["1 1/2"]),
    "\\text{(C)}": (["C"], []),
    "C": (["(C)"], ["C, D"]),
    "\\text{even}": (["even"], []),
    "even": ([], ["even or odd"]),
    "(-\\infty,5)": (["x<5"], []),
    "(-\\infty,5]": ([], ["x<5"]),
    "x \\in [-2,7]": (["[-2,7]"], []),
    "[-2,7]": (["-2 \\le x \\le 7"], []),
    "1 \\pm \\sqrt{19}": (["1+\\sqrt{19},1-\\sqrt{19}"], ["1+\\sqrt{19}"]),
    "\\$18.90": (["18.9"], []),
    "y=2x+3": (["2x+3", "y=3+2x"], []),
    "p-q": ([], ["q-p"]),
    "5x-7y+11z+4=0": (["10x-14y+22z+8=0"], []),
    "100,200": (["100, 200"], []),
    "100200": ([], ["100, 200"]),
    "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}": (
        ["\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}"],
        ["\\begin{pmatrix}1&3\\\\2&4\\end{pmatrix}"],
    ),
    "\\begin{pmatrix}1\\\\2\\end{pmatrix}": ([], ["\\begin{pmatrix}1\\\\3\\end{pmatrix}"]),
    "2k\\pi": (["2n\\pi"], []),
    "0.\\overline{3}": (["\\frac13"], []),
    "x^2": ([], ["x^2+1e-30"]),
    "\\frac{270}7\\text{ degrees}": (["\\frac{270}{7}^\\circ"], []),
    "15\\mbox{ cm}^2": (["15"], ["225"]),
    "abc": (["cba"], []),
    "7,-2,\\text{ and }-5": (["-5, -2, 7"], []),
    "f(2) < f(1) < f(4)": ([], ["f(1)<f(2)<f(4)"]),
    "4:45\\frac{3}{11}": ([], ["4:45"]),
    "3:1": (["3"], ["1:3"]),
    "25^{\\circ} \\mathrm{C}": (["25"], []),
    "X_{d}=125-1.25 P": (["125-1.25P"], []),
    "7.6 Z": ([], ["7.6"]),
    "\\omega": ([], ["\\Omega"]),
    "I(0) e^{-t/RC}": (["I(0)e^{-\\frac{t}{RC}}"], []),
    "30.52": (["\\frac{1587}{52}"], []),
    "3.14": (["\\pi"], []),
    "3.1": ([], ["\\pi"]),
    "\\pi": (["3.14159"], ["3.14"]),
    "1.75": ([], ["1.7"]),
    "\\sqrt[4]{8}": (["8^{1/4}"], []),
    "2,-2": (["\\pm 2"], []),
    "2": ([], ["\\pm 2"]),
    "\\text{None}": (["none"], []),
    "\\infty": ([], ["-\\infty"]),
    "12\\pi": (["12 \\pi \\text{ cm}^2", "37.69911184"], ["37.7"]),
}

FIVE = ["\\fbox{5}", "so $\\boxed{5$.", "so \\[\\boxed{5\\]\nDone.", "The answer is $5$.", "5"]
FIVE += ["**Answer:** 5", "answer: 3, answer: 5", "#### 5 apples", "The answer is $5."]
# gold -> (right responses, wrong responses)
RESPONSES = {
    "5": (FIVE, ["so \\boxed{5", "it is $\\boxed{}$", ""]),
    "1": ([], ["so \\boxed{1} \\boxed{2}"]),
    "2": (["so \\boxed{1} \\boxed{2}"], []),
    "1,2": (["\\boxed{1}, \\boxed{2}"], ["\\boxed{3},\\boxed{1}, \\boxed{2}"]),
    "3": ([], ["<think>\\boxed{3}</think> the answer is 4", "The answer is 3 or 5."]),
    "4": (["<think>\\boxed{3}</think> the answer is 4"], []),
    "1234": (["A: 1,234", "#### 1,234"], []),
    "-3.5": (["Final answer: -3.5"], []),
    "7": (["\\boxed 7"], []),
    "18": (["The answer is 18 dollars per day.", "Thus she makes $18 every day."], []),
    "C": (["The answer is (C)."], []),
    "42": (["So the total is 40 + 2 = 42."], []),
    "0.5": (
        ["The answer is \\frac{1}{2}", "The final answer is $\\frac{1}{2}$. I hope it is correct."],
        [],
    ),
    "(3,4)": (["Therefore, the answer is $x = 3$ and $y = 4$."], []),
    "1000": (["the answer is 1,000 or so people"], []),
}
BOXED = {
    gold: tuple([f"\\boxed{{{answer}}}" for answer in answers] for answers in pair)
    for gold, pair in PAIRS.items()
}


@pytest.mark.parametrize("cases", [BOXED, RESPONSES], ids=["pairs", "responses"])
def test_cases_by_hand(cases):
    for gold, (right, wrong) in cases.items():
        for text in [*right, *wrong]:
            verdict = verify(text, gold)
            assert (verdict.outcome == "correct") == (text in right), (gold, text, verdict)


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
