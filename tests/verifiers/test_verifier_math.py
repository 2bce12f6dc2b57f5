"""The math verifier: pairs and responses by hand, conventions, and what it refuses."""

import json

import pytest
from math_cases import outcome
from refuses import refuses

from common.errors import UserError
from common.verifiers.math import verifier
from common.verifiers.math.verifier import reference, response, verify

# gold, answer, whether it is right
PAIRS = [
    ("4", "4t", False),
    ("3", "3d", False),
    ("3R^2", "3r^2", False),
    ("204_5", "204", False),
    ("204_5", "204_6", False),
    ("204_5", "204_{5}", True),
    ("1+\\frac{1}{\\mathrm{e}}", "1-\\frac{1}{\\mathrm{e}}", False),
    ("1-\\frac{1}{\\mathrm{e}}", "1-e^{-1}", True),
    ("\\frac{1}{2004!}", "\\frac{1}{2006!}", False),
    ("\\frac{1}{2004!}", "1/2004!", True),
    ("\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}", False),
    ("\\frac{1}{2^{99}}", "2^{-99}", True),
    ("4", "4\\sqrt{2}", False),
    ("(1,2)", "\\{1,2\\}", False),
    ("\\{1,2\\}", "(1,2)", False),
    ("1,2", "\\{2,1\\}", True),
    ("1,2", "2,1", True),
    ("(1,2)", "(2,1)", False),
    ("(1,2)", "[1,2]", False),
    ("3", "3 or 5", False),
    ("3", "\\{3,5\\}", False),
    ("3", "5 \\text{ or } 3", False),
    ("3", "3 \\text{ not } 5", False),
    ("5", "3=5", True),
    ("3", "3=5", False),
    ("7", "7.", True),
    ("7", "+7", True),
    ("73", "**73**", True),
    ("5", "$5$", True),
    ("5", "\\text{5}", True),
    ("5", "5\\text{ cm}", True),
    ("5", "5\\,\\mathrm{cm}^2", True),
    ("\\frac13", "0.333333", True),
    ("\\frac13", "0.3333", False),
    ("1234567", "1,234,567", True),
    ("1450000", "1{,}450{,}000", True),
    ("1450000", "1\\,450\\,000", True),
    ("90", "90^\\circ", True),
    ("90", "90°", True),
    ("50\\%", "50", True),
    ("50\\%", "0.5", True),
    ("0.5", "50\\%", True),
    ("0.5", "50", False),
    ("50", "0.5", False),
    ("025", "25", True),
    ("27", "27.0", True),
    ("4.5e33", "4.5 \\times 10^{33}", True),
    ("4.5e33", "4.6\\times 10^{33}", False),
    ("np.arcsin(10/13)", "\\arcsin(10/13)", True),
    ("np.arcsin(10/13)", "\\sin^{-1}\\left(\\frac{10}{13}\\right)", True),
    ("np.arcsin(10/13)", "0.877636", True),
    ("-1./3", "-\\frac{1}{3}", True),
    ("1e-5", "10^{-5}", True),
    ("x=5", "5", True),
    ("5", "x=5", True),
    ("x=5", "y=5", False),
    ("12:00", "1:00", False),
    ("9:24", "9:24 \\text{ AM}", True),
    ("1:03 PM", "13:03", True),
    ("\\text{1:03 PM}", "1:03", False),
    ("2+3i", "3i+2", True),
    ("i(2-i)", "1+2i", True),
    ("2^{100}", "2^{100}+1", False),
    ("|x|", "x", False),
    ("\\sqrt{x^2}", "x", False),
    ("(x+1)^2", "x^2+2x+1", True),
    ("\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt2}", True),
    ("\\frac{\\sqrt{2}}{2}", "0.707107", True),
    ("\\frac{\\sqrt{2}}{2}", "0.707", False),
    ("1\\frac12", "1.5", True),
    ("1 1/2", "\\frac32", True),
    ("-1\\frac12", "-1.5", True),
    ("11/2", "1 1/2", False),
    ("\\text{(C)}", "C", True),
    ("C", "(C)", True),
    ("C", "C, D", False),
    ("\\text{even}", "even", True),
    ("even", "even or odd", False),
    ("(-\\infty,5)", "x<5", True),
    ("(-\\infty,5]", "x<5", False),
    ("x \\in [-2,7]", "[-2,7]", True),
    ("[-2,7]", "-2 \\le x \\le 7", True),
    ("1 \\pm \\sqrt{19}", "1+\\sqrt{19},1-\\sqrt{19}", True),
    ("1 \\pm \\sqrt{19}", "1+\\sqrt{19}", False),
    ("\\$18.90", "18.9", True),
    ("32348", "\\$32,348", True),
    ("y=2x+3", "2x+3", True),
    ("y=2x+3", "y=3+2x", True),
    ("p-q", "q-p", False),
    ("5x-7y+11z+4=0", "10x-14y+22z+8=0", True),
    ("100,200", "100, 200", True),
    ("100200", "100, 200", False),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}", True),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3\\end{pmatrix}", False),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&3\\\\2&4\\end{pmatrix}", False),
    ("2k\\pi", "2n\\pi", True),
    ("0.\\overline{3}", "\\frac13", True),
    ("x^2", "x^2+1e-30", False),
    ("\\frac{270}7\\text{ degrees}", "\\frac{270}{7}^\\circ", True),
    ("10\\text{ units}", "10", True),
    ("15\\mbox{ cm}^2", "15", True),
    ("15\\mbox{ cm}^2", "225", False),
    ("abc", "cba", True),
    ("7,-2,\\text{ and }-5", "-5, -2, 7", True),
    ("\\text{A,B}", "A, B", True),
    ("f(2) < f(1) < f(4)", "f(1)<f(2)<f(4)", False),
    ("4:45\\frac{3}{11}", "4:45", False),
    ("3:1", "3", True),
    ("3:1", "1:3", False),
    ("25^{\\circ} \\mathrm{C}", "25", True),
    ("X_{d}=125-1.25 P", "125-1.25P", True),
    ("7.6 Z", "7.6", False),
    ("\\omega", "\\Omega", False),
    ("E_{1},E_{2}", "E_2, E_1", True),
    ("I(0) e^{-t/RC}", "I(0)e^{-\\frac{t}{RC}}", True),
    ("1/3", "0.33333333", True),
    ("30.52", "\\frac{1587}{52}", True),
    ("0.5", "\\frac{51}{100}", False),
    ("3.14", "\\pi", True),
    ("3.1", "\\pi", False),
    ("\\pi", "3.14", False),
    ("\\pi", "3.14159", True),
    ("1.75", "1.7", False),
    ("10000", "1e4", True),
    ("6.0e23", "6.02e23", False),
    ("\\sqrt[4]{8}", "8^{1/4}", True),
    ("2,-2", "\\pm 2", True),
    ("2", "\\pm 2", False),
    ("\\text{None}", "none", True),
    ("\\infty", "-\\infty", False),
    ("DNE", "\\text{DNE}", True),
    ("2\\sqrt{3}", "2\\sqrt{3}\\text{ units}", True),
    ("12\\pi", "12 \\pi \\text{ cm}^2", True),
    ("12\\pi", "37.69911184", True),
    ("12\\pi", "37.7", False),
]

RESPONSES = [
    ("\\fbox{5}", "5", True),
    ("so \\boxed{5", "5", False),
    ("so $\\boxed{5$.", "5", True),
    ("so \\[\\boxed{5\\]\nDone.", "5", True),
    ("so \\boxed{1} \\boxed{2}", "1", False),
    ("so \\boxed{1} \\boxed{2}", "2", True),
    ("\\boxed{1}, \\boxed{2}", "1,2", True),
    ("\\boxed{3},\\boxed{1}, \\boxed{2}", "1,2", False),
    ("<think>\\boxed{3}</think> the answer is 4", "4", True),
    ("<think>\\boxed{3}</think> the answer is 4", "3", False),
    ("A: 1,234", "1234", True),
    ("#### 1,234", "1234", True),
    ("The answer is $5$.", "5", True),
    ("**Answer:** 5", "5", True),
    ("Final answer: -3.5", "-3.5", True),
    ("\\boxed 7", "7", True),
    ("The answer is 18 dollars per day.", "18", True),
    ("it is $\\boxed{}$", "5", False),
    ("", "5", False),
    ("The answer is (C).", "C", True),
    ("5", "5", True),
    ("So the total is 40 + 2 = 42.", "42", True),
    ("The final answer is $\\frac{1}{2}$. I hope it is correct.", "0.5", True),
    ("Therefore, the answer is $x = 3$ and $y = 4$.", "(3,4)", True),
    ("The answer is 3 or 5.", "3", False),
    ("answer: 3, answer: 5", "5", True),
    ("#### 5 apples", "5", True),
    ("The answer is $5.", "5", True),
    ("Thus she makes $18 every day.", "18", True),
    ("The answer is \\frac{1}{2}", "0.5", True),
    ("the answer is 1,000 or so people", "1000", True),
]


def test_pairs():
    wrong = [
        (gold, answer, verdict)
        for gold, answer, right in PAIRS
        if ((verdict := verify(f"\\boxed{{{answer}}}", gold)).outcome == "correct") != right
    ]
    assert wrong == []


def test_responses():
    wrong = [
        (text, gold, verdict)
        for text, gold, right in RESPONSES
        if ((verdict := verify(text, gold)).outcome == "correct") != right
    ]
    assert wrong == []


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
    assert got["last_number"] == got["exact"] == "wrong"
    assert outcome(text, "7", convention="last_number") == "correct"
    assert outcome("The answer is 7", "7", convention="boxed") == "unparsed"
    assert outcome("\\boxed{ 7 }", "7", convention="exact") == "correct"
    assert outcome("\\boxed{7.0}", "7", convention="exact") == "wrong"
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
    several = reference({"id": 1, "answer": "5", "final_answer": ["5", "1"]})
    assert outcome("\\boxed{1, 5}", several) == "correct"
    assert outcome("\\boxed{5}", several) == "wrong"


@pytest.mark.parametrize("gold", ["", "  ", None])
def test_an_empty_gold_is_refused(gold):
    with pytest.raises(UserError, match="math-train-5341: answer"):
        reference({"id": "math-train-5341", "answer": gold})
    with pytest.raises(UserError, match="reference"):
        verify("\\boxed{}", gold or "")


def test_bad_option_and_reference_are_refused():
    with refuses("convention", "lenient"):
        verify("5", "5", convention="lenient")
    with pytest.raises(UserError, match="reference"):
        verify("5", '{"gold": "5", "tolerance": "x"}')


def test_a_bare_answer_is_put_in_a_box():
    row = {"kind": "answer_pair", "response": "a = 1} and b = 2"}
    assert response(row) == "\\boxed{a = 1 and b = 2}"
    assert response({"kind": "generation", "response": "#### 5"}) == "#### 5"


def test_identical_pairs_are_judged_once():
    verifier._judged.cache_clear()
    for at in range(256):
        verify(f"attempt {at}: \\boxed{{{at % 4}\\sqrt{{2}}}}", "\\sqrt{8}")
    assert verifier._judged.cache_info().misses == 4


def test_a_gold_without_end_is_refused_at_once_and_one_that_is_no_number():
    endless = "7" * 100_000
    with refuses("reference"):
        verify("\\boxed{7}", endless)
    for answer in (endless, float("nan"), float("inf")):
        with refuses("row a: answer"):
            reference({"id": "a", "answer": answer})
    solution = "words " * 1000 + "\\boxed{7}"
    assert verify("\\boxed{7}", reference({"id": "a", "answer": solution})).outcome == "correct"
