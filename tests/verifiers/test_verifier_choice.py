"""Multiple choice: texts by hand, labelled cases, and the conventions of others pinned to their
source."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from labelled import rows
from timing import cpu_seconds

from common.verifiers.choice import CONVENTIONS, example, reference, verify

OPTIONS = ["12 N", "a rise in pressure", "42 N", "vitamin C"]
REFERENCE = reference({"id": "x", "answer": "C", "options": OPTIONS})
TEN = reference({"id": "x", "answer": "A", "options": [f"text {i}" for i in range(10)]})

# Responses, parted by " | ", in which "¶" is a line break.
CORRECT = r"""
\boxed{\mathbf{(C)}} | \fbox{C} | \boxed{c} | \boxed{(C) 42~\text{N}} | \boxed{42\text{ N}} |
\boxed{C}. So the answer is (A). | \boxed{12 N} is one force. The answer is (C). |
\boxed{A} no, \boxed{C} | \boxed{7}¶The answer is (C). | <think>\boxed{A}</think>\boxed{C} |
<think>the answer is (A)</think> The answer is (C). |
<answer>A</answer>, or <ANSWER>The answer is C.</ANSWER> |
<answer></answer>¶The answer is C<|im_end|> | c | 42 N | C. 42 N | The answer is A.¶¶**C** |
We weigh them.¶¶#### C | Thus, (C). | [C] | __C__ | **Answer:** C | Ans: c | The answer is "42 N". |
{'choice': 'C'} | Conclusion: C | Selected option → C | The answer, then, is <C>. |
The right answer would therefore be C. | The answer to this is most likely c. |
The answer is (C) 42 N. Question: ... The answer is (A). |
The answer is Greater; the answer is (C) | We weigh them.¶I would go with C since forces add. |
That is 42 N, which is option C. | It must be C. | Answer: A seems fine. On reflection, answer: C |
The answer is A. Sorry, it's C. | Answer: A. Actually, C. | Answer: A. No, C. |
Answer: A. Sorry, C. | My final choice is C. | C is clearly the best one. | We weigh them.¶- C |
Answer: **A**, wait. Answer: **C** | The answer is not A but C. | The answer is C. So A is out. |
Option A is wrong.¶So option (C) must be correct. | A and B are wrong; option C is correct. |
The answer is C. Therefore, (A), (B) and (D) are wrong. | The answer is C, not A. |
The answer is C, I think. | I'm not sure, but the answer is C. | The answer is (C) about 42 |
故选（Ｃ） | 答案：【C】 | 正确答案是C。 | 选项C是正确的。 | 答案：C。¶选项A：不对 | 正确选项是C |
Antwort: C | The correct letter is C. | The answer choice is C. | It matches (C). |
The answer's C. | Selection: C | Lösung: C | The answer will be C. |
I'm not sure but the answer is C. | The answer is:¶C. 42 N¶Good luck! | C - 42 N |
Final answer → option C | I'd pick C — a safe bet. | The answer is C as forces add. |
The answer is C rather than A. | Die Antwort lautet C. | Richtig ist C. |
Also ist Antwort C richtig. | Die korrekte Option ist C."""
WRONG = r"""
\boxed{D) vitamin C} | The answer is vitamin C, because it is sour. | Final answer – D |
The answer is C. Actually, the answer is D."""
UNPARSED = r"""
\boxed{} | \boxed{A, C} | \boxed{(C)(D)} | \boxed{C | \boxed{E} | \boxed{ı} | \boxed{Ⅽ} |
\boxed{C} or \boxed{D} | The answer is (C).¶\boxed{A | <think>the answer is C |
<think>the answer is (C)</think> | <answer>C, D</answer> | <answer>The answer is C |
The answer is A. The answer is either A or C. | The answer is (A), (C) | Answer: C/D | 答案是A或C |
Hence (C), which fails. | Both C and D are correct. | A is correct, but C is also correct. |
We choose A and C. | A or option C is correct. | Neither A nor C is correct. |
I don't think C is correct. | C is incorrect. | The wrong answer is C. | C不是正确答案 |
答案是A、C | The answer is C. Scratch that. | The answer is C. Wait. |
The answer is C. The answer is probably A or C. | The answer is C. But A is also correct. |
答案是C。答案是A或C | The answer is A. On second thought, C is a trap. |
The answer is C. The answer is not C. | The answer is C. Wait, that is wrong. |
The answer must not be C. | If the answer is C, the force doubles. |
C would be the best choice if it were heavier. | Is the answer C? |
The answer is (C) only if it holds. | The answer is C.5 | Choose A number. | No, (C) is wrong. |
This is C, the worst. | The answer is (C) is wrong. | The answer is C-14. | The answer is C = 3. |
The answer is A rise in temperature | The answer is A - B = 3 | The answer: (a) 12 m, (b) 5 m |
A. 12 N¶B. a rise in pressure¶C. 42 N¶D. vitamin C | Answer: None of the above | I think C |
AC is correct"""


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        (response.strip().replace("¶", "\n"), letter)
        for letter, responses in (("C", CORRECT), ("D", WRONG), (None, UNPARSED))
        for response in re.split(r"\s\|\s", responses)
    ]
    + [("", None), ("C\0", None), ("\ud800 \\boxed{\ud800}", None)],
)
def test_ours(response, letter):
    verdict = verify(response, REFERENCE)
    assert verdict.parsed == letter
    assert verdict.outcome == {"C": "correct", None: "unparsed"}.get(letter, "wrong")
    assert verdict.reward == (letter == "C")


def test_a_text_names_an_option_only_if_it_is_the_only_one_of_that_text():
    twice = reference({"id": "x", "answer": "A", "options": ["Two", "two.", "a", "*"]})
    read = {"\\boxed{two}": None, "\\boxed{a}": "C", "\\boxed{A}": "A", "\\boxed{B}": "B", "": None}
    assert {text: verify(text, twice).parsed for text in read} == read
    elements = reference({"id": "x", "answer": "D", "options": ["Al", "Tl", "C", "B"]})
    assert verify("\\boxed{B}", elements).parsed == "B"  # a capital is a letter before it is a text


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_hostile_responses(convention):
    big = 250_000  # what is quadratic takes minutes
    texts = ["answer: ", "answer is (", "\\boxed{", "(", "A ", " ", "a\n", "The answer is ", "\0"]
    texts += ["\ud800", ": \t", "answer:A", "answer:\n", "\\boxed{C} ", "<think>", "**"]
    texts = [text * (big // len(text)) for text in texts]
    texts += ["x" + " " * big + "answer is\n" + "answer" + " " * big]
    for text in texts:
        seconds, verdict = cpu_seconds(verify, text, REFERENCE, convention=convention)
        assert seconds < 1, text[:20]
        assert verdict.parsed is None or verdict.parsed in "ABCD"
        assert len(verdict.reason) < 300


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_example_is_correct_and_for_its_own_letter_only(convention):
    for letter in "ABCD":
        other = reference({"id": "x", "answer": letter, "options": OPTIONS})
        assert verify(example(other), other, convention=convention).outcome == "correct"
        verdict = verify(example(other), REFERENCE, convention=convention)
        assert verdict.outcome == ("correct" if letter == "C" else "wrong")


# Closings that "ours" does not read: "Respuesta: B", "So we are left with B.", "B fits best."
UNREAD = {f"mc5-{at}" for at in (31, 33, 36, 37, 40, 61, 62)}
UNREAD |= {f"mc5-close{at}" for at in (0, 2, 9, 23, 24, 25)}


def test_public_cases():
    judged = [row for name in ("public_cases", "public_cases_2") for row in rows(name)]
    judged = [row for row in judged if row["kind"] == "choice"]
    right = {r["id"]: verify(r["response"], reference(r)).outcome == "correct" for r in judged}
    misjudged = {row["id"] for row in judged if right[row["id"]] != (row["expected"] == "correct")}
    assert misjudged == UNREAD
    assert sum(right.values()) > 70


# What "ours" reads where the authors read another letter or none: several letters, the last of
# several statements, and a statement in other words.
OTHERWISE = {"mmlu_pro-4783#0": None, "mmlu_pro-5886#0": None, "mmlu_pro-6718#0": None}
OTHERWISE |= {"mmlu_pro-6197#0": "B", "mmlu_pro-8977#0": "B", "mmlu_pro-9151#0": "I"}


@pytest.fixture(scope="module")
def outputs() -> list[dict]:
    return [row for row in rows("verifier_cases") if row["source"] == "mmlu_pro_outputs"]


def test_mmlu_pro_outputs_have_the_authors_verdicts(outputs):
    counts = {convention: Counter() for convention in CONVENTIONS}
    for row in outputs:
        for convention, counted in counts.items():
            verdict = verify(row["response"], reference(row), convention=convention)
            counted[verdict.outcome] += 1
            if convention != "lm_eval":
                read = OTHERWISE if convention == "ours" else {}
                assert (verdict.outcome == "correct") == row["correct"], (row["id"], convention)
                assert verdict.parsed == read.get(row["id"], row["extracted_2level"]), row["id"]
    printed = {"ours": (171, 208, 63), "mmlu_pro": (171, 209, 62), "lm_eval": (170, 209, 63)}
    for convention, counted in counts.items():  # as docs/verifiers.md prints them
        outcomes = ("correct", "wrong", "unparsed")
        assert counted == dict(zip(outcomes, printed[convention], strict=True))


TEXTS = ["answer: ", "Answer:", "answer is ", "answer is (", "B", "(D) ", "J)", "\n", " ", "C1"]
TEXTS += ["Bo", ".", "The answer is ", ": ", "Vitamin C!", "\n\n", "no", "A", "The best answer is "]


def random_texts(n: int) -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choices(TEXTS, k=rng.randint(1, 9))) for _ in range(n)]


def test_levels_of_mmlu_pro_equal_the_authors_quadratic_patterns():
    """compute_accuracy.py and evaluate_from_local.py of TIGER-AI-Lab/MMLU-Pro."""
    answered = 0
    for text in random_texts(5000):
        two = re.search(r"answer is \(?([A-J])\)?", text)
        two = two or re.search(r".*[aA]nswer:\s*([A-J])", text)
        assert verify(text, TEN, convention="mmlu_pro").parsed == (two and two[1]), text
        answered += two is not None
    assert answered > 1000


def test_the_convention_of_lm_eval_equals_its_own_filter(outputs):
    """Its filter and pattern as the task file of the installed version gives them."""
    pytest.importorskip("lm_eval")
    from lm_eval.filters.extraction import RegexFilter
    from lm_eval.tasks import __file__ as tasks
    from lm_eval.tasks._yaml_loader import load_yaml

    task = load_yaml(Path(tasks).parent / "mmlu_pro/_default_template_yaml", resolve_func=False)
    arguments = dict(task["filter_list"][0]["filter"][0])
    assert arguments.pop("function") == "regex"
    texts = [row["response"] for row in outputs] + random_texts(1000)
    answers = RegexFilter(**arguments).apply([[text] for text in texts], [{}] * len(texts))
    parsed = [verify(text, TEN, convention="lm_eval").parsed for text in texts]
    assert parsed == [None if answer == "[invalid]" else answer for (answer,) in answers]
    assert len(set(parsed)) == 11
